"""Compiling a model again for some of its outputs, if that saves enough time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fourfold.plan import CompiledModel
from fourfold.runtime.request import Request, model_key_parts
from fourfold.store.store import Store
from fourfold.support.lazy import lazy_import
from fourfold.support.timings import Timings

if TYPE_CHECKING:
    from fourfold.compiler import compile as compiler
else:
    compiler = lazy_import("fourfold.compiler.compile")

# Fraction of a run's time that a cut must save, because weights and kernels then exist twice.
MIN_SAVING = 0.05


def can_cut(model: CompiledModel) -> bool:
    """Return whether the model is one part without states. Models of several parts skip unneeded
    parts at run time instead.
    """
    return len(model.parts) == 1 and not model.states


def cut_request(request: Request, outputs: Sequence[str], store: Store | None) -> Request | None:
    """Return a request for the model with only these outputs; None if that saves too little."""
    options = replace(request.compile_options, outputs=tuple(outputs))
    placement = replace(request.placement_options, on_fallback=None)  # already reported
    cut = request._replace(compile_options=options, placement_options=placement, timings=Timings())
    return cut if _is_stored(cut, store) or _saving(request, outputs) >= MIN_SAVING else None


def _is_stored(request: Request, store: Store | None) -> bool:
    """Return whether the store has the cut model, which then was worth compiling before."""
    return store is not None and store.has(model_key_parts(request, store))


def _saving(request: Request, outputs: Sequence[str]) -> float:
    content, options = request.readable.content, request.compile_options
    loaded = compiler.load_model(content, options)
    share: float = compiler.estimate_saving(loaded.model, outputs, request.device)
    return share
