"""What a caller opens a model with, as the stages take it: its path, the store, who reads it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache as cache_once
from typing import TYPE_CHECKING, Union

from fourfold import players
from fourfold.config import Config
from fourfold.cpu import CPU
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, InputError
from fourfold.lazy import lazy_import
from fourfold.options import PlacementOptions

if TYPE_CHECKING:
    from fourfold import convert as conversions
    from fourfold.store import store as stores
else:
    conversions, stores = lazy_import("fourfold.convert"), lazy_import("fourfold.store.store")

PathName = str | os.PathLike[str]
Model = PathName | bytes | tuple[PathName, ...]
Cache = Union[PathName, "stores.Store", None]
AUTO, MEMORY = "auto", "memory"


def path_or_bytes(model: Model) -> str | bytes:
    """Several paths are one, as lists of folders are in the environment."""
    if isinstance(model, bytes):
        return model
    paths = model if isinstance(model, tuple) else (model,)
    return os.pathsep.join(os.fspath(path) for path in paths)


def model_reader(
    model: str | bytes, store: stores.Store | None, config: Config
) -> Callable[[], conversions.ReadableModel]:
    """The model as readers take it, made so when it is first asked for and then kept."""

    def make() -> conversions.ReadableModel:
        return conversions.make_readable(model, store, config.conversion_limit)

    return cache_once(make)


def find_store(
    cache: Cache, folder: str | os.PathLike[str] | None, config: Config
) -> stores.Store | None:
    """The store that a session uses; `folder` is what TFLite's option says."""
    if folder is not None:
        if cache != AUTO:
            why = "serialization_dir is TFLite's name for the folder of the store, cache ours"
            raise InputError(
                "both cache and serialization_dir were passed", why, "pass one of them"
            )
        cache = folder
    if cache == MEMORY:
        return stores.memory_store()
    cache = config.cache if cache == AUTO else cache
    if isinstance(cache, str | os.PathLike):
        return stores.folder_store(cache, config.cache_limit)
    return cache


def session_device(wanted: object, options: PlacementOptions) -> DeviceInfo:
    """Where a model runs: the device that is wanted, or the processor where all is to be there."""
    if options.placement == "cpu":
        return CPU
    device = players.find_device(wanted, compiles=False)  # what is kept needs no compiler
    return players.with_threads(device, options.threads)


def check_precision(precision: str, device: DeviceInfo, store: stores.Store | None) -> None:
    """A DeviceError where half arithmetic is asked of a device that has none."""
    if precision != "fp16":
        return
    if not players.ask_facts(device, ("half_arithmetic",), store).half_arithmetic:
        raise DeviceError(
            f"{device.name} does not compute in half precision",
            "a test kernel with half arithmetic did not build or gave a wrong result",
            "use precision='mixed': halves in memory, floats in arithmetic",
        )
