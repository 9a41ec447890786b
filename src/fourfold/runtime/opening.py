"""What a caller opens a model with, as the stages take it: its path, the store, who reads it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache as cache_once
from typing import TYPE_CHECKING, Any, Protocol, Union, cast

from fourfold import backends
from fourfold.backends.cpu import CPU
from fourfold.config import Config
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, InputError
from fourfold.options import AUTO, PlacementOptions, SessionOptions
from fourfold.runtime.request import Request
from fourfold.support.lazy import lazy_import
from fourfold.support.timings import Timings

if TYPE_CHECKING:
    import mmap

    from fourfold.compiler import convert as conversions
    from fourfold.store import store as stores
    from fourfold.store.store import Store
else:
    conversions, stores = (
        lazy_import("fourfold.compiler.convert"),
        lazy_import("fourfold.store.store"),
    )


class ModelFile(Protocol):
    """A file that is open for reading bytes."""

    def read(self) -> Any: ...


PathName = str | os.PathLike[str]
Buffer = Union[bytes, bytearray, memoryview, "mmap.mmap"]
Model = PathName | Buffer | ModelFile | Sequence[PathName]
Cache = Union[PathName, "stores.Store", None]
MEMORY = "memory"


def path_or_bytes(model: Model) -> str | bytes:
    """A model by its path, or all of its bytes. Several paths are one, as lists of folders are in
    the environment.
    """
    if isinstance(model, bytes):
        return model
    if isinstance(model, str | os.PathLike):
        return model_path(model)
    if isinstance(model, tuple | list):
        return os.pathsep.join(map(model_path, model))
    try:
        return bytes(memoryview(model))  # type: ignore[arg-type]
    except TypeError:
        pass
    if not callable(getattr(model, "read", None)):
        what = f"an object of type {type(model).__name__} is no model"
        why = "it is no path, no bytes and no file"
        raise InputError(what, why, "pass the model's path, its bytes, or a file opened as 'rb'")
    return _path_of_file(model) or _rest_of_file(cast("ModelFile", model))


def model_path(path: PathName) -> str:
    """A path as it is opened: '~' is the home, and what names no file of a machine is refused."""
    text = os.fspath(path)
    if "://" in text and not os.path.exists(text):
        why = "models are opened from files, and nothing is fetched"
        fix = "download it first, and pass the path of the file"
        raise InputError(f"'{text}' is an address on a network", why, fix)
    return os.path.expanduser(text) if text.startswith("~") else text


def model_title(source: str | bytes, name: str | None = None) -> str:
    """Return what reports call a model: its file name, with its own name in a prepared file."""
    if isinstance(source, bytes):
        return name or "a model in memory"
    file = os.path.basename(os.path.normpath(source))
    return file if name is None else f"{name} of {file}"


def _path_of_file(file: Any) -> str | None:
    """The path of an open file of which nothing was read yet: files beside it are found by that,
    and it is mapped instead of copied. None for what is no such file, or no longer.
    """
    try:
        same = os.path.samestat(os.fstat(file.fileno()), os.stat(file.name))
        return os.path.abspath(file.name) if same and file.tell() == 0 else None
    except (AttributeError, OSError, TypeError, ValueError):
        return None


def _rest_of_file(file: ModelFile) -> bytes:
    content = file.read()
    if not isinstance(content, bytes):
        why = f"it gives {type(content).__name__}, and a model is bytes"
        raise InputError("the file cannot be read as a model", why, "open it with mode 'rb'")
    if not content:
        why = "nothing is left to read of it"
        raise InputError("the file holds no model", why, "go to its start first: file.seek(0)")
    return content


def model_reader(
    model: str | bytes, store: stores.Store | None, config: Config
) -> Callable[[], conversions.ReadableModel]:
    """The model as readers take it, made so when it is first asked for and then kept."""

    def make() -> conversions.ReadableModel:
        return conversions.make_readable(model, store, config.conversion_limit)

    return cache_once(make)


def open_request(source: str | bytes, options: SessionOptions) -> tuple[Request, Store | None]:
    """Return what the caller asks for, with the device that it runs on, and the store."""
    config, timings = Config.from_environment(), Timings()
    placement = options.placement_options(config)
    with timings.stage("device"):
        device = session_device(options.wanted_device(config), placement)
    compile_options = options.compile_options(config)
    store = find_store(options.cache, options.serialization_dir, config)
    check_precision(compile_options.precision, device, store)
    request = Request(
        model=source,
        device=device,
        config=config,
        compile_options=compile_options,
        placement_options=placement,
        timings=timings,
        name=options.model,
        token=options.model_token,
        make_readable=model_reader(source, store, config),
    )
    return request, store


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
    device = backends.find_device(wanted, compiles=False)  # what is kept needs no compiler
    return backends.with_threads(device, options.threads)


def check_precision(precision: str, device: DeviceInfo, store: stores.Store | None) -> None:
    """A DeviceError where half arithmetic is asked of a device that has none."""
    if precision != "fp16":
        return
    if not backends.determine_facts(device, ("half_arithmetic",), store).half_arithmetic:
        raise DeviceError(
            f"{device.name} does not compute in half precision",
            "a test kernel with half arithmetic did not build or gave a wrong result",
            "use precision='mixed': halves in memory, floats in arithmetic",
        )
