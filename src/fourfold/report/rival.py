"""Whom a model is compared with: the CPU runtime of its format, where it has one that is there."""

from __future__ import annotations

from typing import NamedTuple

from fourfold.cpu.protocol import CpuEngine
from fourfold.cpu.registry import find_engine, usable_engine
from fourfold.formats import Format, ReadOptions, find_format, read_model


class Rival(NamedTuple):
    """An engine; where that is NumPy, `reason` says why it is not a runtime."""

    engine: CpuEngine
    reason: str = ""


def find_rival(model: str | bytes) -> Rival:
    """The CPU runtime of the model's format, else NumPy."""
    form = find_format(model)
    return Rival(usable_engine(form.cpu_engine), _missing(form))


def model_of_signature(model: str | bytes, signature: str | None) -> str | bytes:
    """What an engine runs that is told nothing of signatures: the model itself, or a file whose
    first graph is that of the signature.
    """
    if signature is None:
        return model
    read = read_model(model, ReadOptions(signature=signature, keep_unsupported=True))
    return model if read.source_graph is None else read.source_graph.content


def _missing(form: Format) -> str:
    if form.cpu_engine is None:
        return f"{form.name} models have no CPU runtime of their own"
    engine = find_engine(form.cpu_engine)
    return "" if engine.installed() else f"{engine.title} is not installed ({engine.install})"
