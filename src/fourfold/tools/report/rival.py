"""CPU runtimes that a model is compared with: the one of its format, or others by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fourfold.backends.cpu.protocol import CpuEngine
from fourfold.backends.cpu.registry import engine_names, find_engine, usable_engine
from fourfold.errors import InputError, nearest
from fourfold.formats import Format, ReadOptions, find_format, read_model
from fourfold.plan.targets import NUMPY

OWN, NONE = "own", "none"  # names for the runtime of the model's format, and for no runtime


class Rival(NamedTuple):
    """A CPU engine. If NumPy stands in for a runtime, `reason` says why."""

    engine: CpuEngine
    reason: str = ""


def find_rival(model: str | bytes, isolate: bool = False) -> Rival:
    """Return the CPU runtime of the model's format, or NumPy if there is none."""
    form = find_format(model)
    return Rival(usable_engine(form.cpu_engine, isolate), _missing(form))


def named_rivals(model: str | bytes, names: Sequence[str], isolate: bool = False) -> list[Rival]:
    """Return runtimes by name ('own' is that of the model's format), with a `reason` for each that
    cannot run the model.
    """
    form = find_format(model)
    return [
        find_rival(model, isolate)
        if name == OWN
        else Rival(find_engine(name, isolate), _unable(form, name))
        for name in names
    ]


def runtime_names() -> tuple[str, ...]:
    """Return the names of all runtimes that a model can be compared with."""
    return tuple(name for name in engine_names() if name != NUMPY)


def parse_rivals(option: bool | str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of runtimes to compare with, from True (the format's own), False, or names
    as a sequence or as text such as 'litert,onnxruntime'.
    """
    if isinstance(option, bool):
        return (OWN,) if option else ()
    names = option.split(",") if isinstance(option, str) else option
    choices = (OWN, NONE, *runtime_names())
    for name in names:
        if name and name not in choices:
            what, why = f"there is no runtime {name!r} to compare with", ", ".join(choices)
            raise InputError(what, f"runtimes are {why}", nearest(name, choices))
    return () if NONE in names else tuple(name for name in names if name)


def model_of_signature(model: str | bytes, signature: str | None) -> str | bytes:
    """Return the model for an engine that knows no signatures: the model itself, or a file whose
    first graph is that of the signature.
    """
    if signature is None:
        return model
    read = read_model(model, ReadOptions(signature=signature, keep_unsupported=True))
    return model if read.source_graph is None else read.source_graph.content


def _unable(form: Format, name: str) -> str:
    if form.cpu_engine != name:
        return f"{find_engine(name).title} does not run {form.name} models"
    return _missing(form)


def _missing(form: Format) -> str:
    if form.cpu_engine is None:
        return f"{form.name} models have no CPU runtime of their own"
    engine = find_engine(form.cpu_engine)
    return "" if engine.installed() else f"{engine.title} is not installed ({engine.install})"
