"""Whether a model is made ready once more for some of its outputs alone: if it saves enough."""

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

WORTH = 0.05  # of the time of a run: weights are in memory twice, and kernels built once more


def can_cut(model: CompiledModel) -> bool:
    """Whether a smaller model can be compiled for some of the outputs: it is one part without
    states. Of several parts, those that are not needed are skipped anyway.
    """
    return len(model.parts) == 1 and not model.states


def cut_request(request: Request, outputs: Sequence[str], store: Store | None) -> Request | None:
    """The request of the same model with these outputs alone; None where it saves too little."""
    options = replace(request.compile_options, outputs=tuple(outputs))
    told = replace(request.placement_options, on_fallback=None)  # what it would tell is known
    cut = request._replace(compile_options=options, placement_options=told, timings=Timings())
    return cut if _is_stored(cut, store) or _saving(request, outputs) >= WORTH else None


def _is_stored(request: Request, store: Store | None) -> bool:
    """Whether it was worth it before."""
    return store is not None and store.has(model_key_parts(request, store))


def _saving(request: Request, outputs: Sequence[str]) -> float:
    content, options = request.readable.content, request.compile_options
    loaded = compiler.load_model(content, options)
    share: float = compiler.share_left_out(loaded.model, outputs, request.device)
    return share
