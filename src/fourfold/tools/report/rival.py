"""Whom a model is compared with: the CPU runtime of its format, where it has one that is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fourfold.backends.cpu.protocol import CpuEngine
from fourfold.backends.cpu.registry import engine_names, find_engine, usable_engine
from fourfold.formats import Format, ReadOptions, find_format, read_model
from fourfold.plan.targets import NUMPY


class Rival(NamedTuple):
    """An engine; where that is NumPy, `reason` says why it is not a runtime."""

    engine: CpuEngine
    reason: str = ""


def find_rival(model: str | bytes) -> Rival:
    """The CPU runtime of the model's format, else NumPy."""
    form = find_format(model)
    return Rival(usable_engine(form.cpu_engine), _missing(form))


def named_rivals(model: str | bytes, names: Sequence[str]) -> list[Rival]:
    """The runtimes of these names, each with a reason where it cannot run the model."""
    form = find_format(model)
    return [Rival(find_engine(name), _unable(form, find_engine(name))) for name in names]


def runtime_names() -> tuple[str, ...]:
    """The names of all runtimes that a model can be compared with."""
    return tuple(name for name in engine_names() if name != NUMPY)


def _unable(form: Format, engine: CpuEngine) -> str:
    if form.cpu_engine != engine.name:
        return f"{engine.title} does not run {form.name} models"
    return _missing(form)


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
