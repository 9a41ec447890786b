"""Request: the model to open, the device to open it on, and the caller's options."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from fourfold import backends
from fourfold.config import Config
from fourfold.device import DeviceInfo
from fourfold.errors import cannot_open
from fourfold.options import CompileOptions, PlacementOptions
from fourfold.store.keys import Parts, compiled_parts, digest
from fourfold.support.lazy import lazy_import
from fourfold.support.timings import Timings

if TYPE_CHECKING:
    from fourfold.compiler import convert as conversions
    from fourfold.compiler.convert import ReadableModel
    from fourfold.store.store import Store
else:
    conversions = lazy_import("fourfold.compiler.convert")


class Request(NamedTuple):
    """A model to open, where and how. `timings` receives the seconds of each stage."""

    model: str | bytes
    device: DeviceInfo
    config: Config
    compile_options: CompileOptions
    placement_options: PlacementOptions
    timings: Timings
    name: str | None = None  # selects a model in a prepared file
    token: str = ""  # the caller's version of the model, part of the key
    make_readable: Callable[[], ReadableModel] | None = None  # None: the model needs no conversion
    plays: bool = True  # the plans are opened next, so start the compiler early

    @property
    def title(self) -> str:
        if isinstance(self.model, bytes):
            return "a model in memory"
        return os.path.basename(self.model)

    @property
    def readable(self) -> ReadableModel:
        """The model in a format that can be read. A start from the store never needs it."""
        if self.make_readable is None:
            return conversions.ReadableModel(self.model)
        return self.make_readable()


def model_key_parts(request: Request, store: Store) -> Parts:
    """Return the labelled parts of the key under which the store has a compiled model."""
    options, placement = request.compile_options, request.placement_options
    model = {"model": _model_digest(request.model, store), "token": request.token}
    option_texts = {
        "precision": options.precision,
        "sizes": str(options.literal_sizes),
        "launches": options.launches,
        "quantized": str(options.quantized),
        "follow": str(options.follow_batch),
        "pixels": options.pixels_text,
        "postprocess": options.postprocess_text,
        "signature": options.signature or "",
        "placement": _placement_text(placement),
    }
    if options.memory_limit is not None:
        precision = "any" if options.any_precision else "this"
        option_texts["memory"] = f"{options.memory_limit} bytes, {precision} precision"
    if options.outputs:
        option_texts["outputs"] = repr(options.outputs)
    device = backends.load_facts(request.device, store)
    return {**store.engine_parts, **compiled_parts(model, options.shapes, device, option_texts)}


def _placement_text(options: PlacementOptions) -> str:
    """Return the options that a placement depends on, as text. 'measure' places as 'auto' does."""
    name = "auto" if options.placement == "measure" else options.placement
    limit = "" if options.max_partitions is None else f", at most {options.max_partitions} parts"
    return f"{name}{limit}{options.reason and f': {options.reason}'}"


def _model_digest(model: str | bytes, store: Store) -> str:
    if isinstance(model, bytes):
        return digest(model)
    try:
        return store.model_digest(model)
    except OSError as error:
        raise cannot_open(model, error) from error
