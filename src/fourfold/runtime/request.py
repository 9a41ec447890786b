"""Request: which model is to be opened, on which device, and what the caller said of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from fourfold import players
from fourfold.config import Config
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.lazy import lazy_import
from fourfold.options import CompileOptions, PlacementOptions
from fourfold.store.keys import Parts, digest, plan_parts
from fourfold.timings import Timings

if TYPE_CHECKING:
    from fourfold import convert as conversions
    from fourfold import pixels
    from fourfold.convert import ReadableModel
    from fourfold.processing import option as processing
    from fourfold.store.store import Store
else:
    conversions, pixels = lazy_import("fourfold.convert"), lazy_import("fourfold.pixels")
    processing = lazy_import("fourfold.processing.option")


class Request(NamedTuple):
    """What is to be opened, where, and how; `timings` notes how long each stage took."""

    model: str | bytes
    device: DeviceInfo
    config: Config
    compile_options: CompileOptions
    placement_options: PlacementOptions
    timings: Timings
    name: str | None = None  # of a model among several in a prepared file
    token: str = ""  # of the caller, one more part of the key
    any_precision: bool = False  # whether a prepared file's own will do: the caller named none
    make_readable: Callable[[], ReadableModel] | None = None  # None: readers take it as it is
    plays: bool = True  # whether a player of the plan is made next, so that a compiler may warm up

    @property
    def title(self) -> str:
        if isinstance(self.model, bytes):
            return "a model in memory"
        return os.path.basename(self.model)

    @property
    def readable(self) -> ReadableModel:
        """The model as readers take it. A start from the store never asks for it."""
        if self.make_readable is None:
            return conversions.ReadableModel(self.model)
        return self.make_readable()

    @property
    def pixels_text(self) -> str:
        """In words which inputs come as bytes."""
        given = self.compile_options.pixels
        return "" if given is None else str(pixels.pixels_text(given))

    @property
    def postprocess_text(self) -> str:
        """In words what is made of outputs."""
        given = self.compile_options.postprocess
        return "" if given is None else str(processing.postprocess_text(given))


def plan_key_parts(request: Request, store: Store) -> Parts:
    """The labelled parts of the key under which the plan of a request is kept."""
    options = request.compile_options
    model = {"model": _model_digest(request.model, store), "token": request.token}
    stated = {
        "precision": options.precision,
        "sizes": str(options.literal_sizes),
        "launches": options.launches,
        "quantized": str(options.quantized),
        "follow": str(options.follow_batch),
        "pixels": request.pixels_text,
        "postprocess": request.postprocess_text,
        "signature": options.signature or "",
    }
    if options.memory_limit is not None:
        stated["memory"] = str(options.memory_limit)
    if options.outputs:
        stated["outputs"] = repr(options.outputs)
    device = players.recall_facts(request.device, store)
    return {**store.engine_parts, **plan_parts(model, options.shapes, device, stated)}


def _model_digest(model: str | bytes, store: Store) -> str:
    if isinstance(model, bytes):
        return digest(model)
    try:
        return store.model_digest(model)
    except OSError as error:
        why, fix = error.strerror or str(error), "check the path and that the file may be read"
        raise InputError(f"cannot open '{model}'", why, fix) from error
