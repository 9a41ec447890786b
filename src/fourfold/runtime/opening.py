"""From the caller's arguments to a `Request`: the model's path or bytes, the device and the
store.
"""

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
from fourfold.options import AUTO, PlacementOptions, SessionOptions, shortened
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
    """A file opened for reading bytes."""

    def read(self) -> Any: ...


PathName = str | os.PathLike[str]
Buffer = Union[bytes, bytearray, memoryview, "mmap.mmap"]
Model = PathName | Buffer | ModelFile | Sequence[PathName]
Cache = Union[PathName, "stores.Store", None]
MEMORY = "memory"


def path_or_bytes(model: Model) -> str | bytes:
    """Return the path of a model, or its bytes. Several paths are joined with `os.pathsep`."""
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
        what = f"an object of type {type(model).__name__} is not a model"
        why = "it is not a path, bytes or a file"
        raise InputError(what, why, "pass the model's path, its bytes, or a file opened as 'rb'")
    return _path_of_file(model) or _rest_of_file(cast("ModelFile", model))


def model_path(path: PathName) -> str:
    """Return a path with '~' expanded. Raises an InputError for a URL."""
    text = path_text(path)
    if "://" in text and not os.path.exists(text):
        why = "models are opened from local files"
        fix = "download it first, and pass the path of the file"
        raise InputError(f"'{text}' is a URL", why, fix)
    return os.path.expanduser(text) if text.startswith("~") else text


def path_text(path: PathName) -> str:
    """Return a path as text; InputError for anything that cannot name a file."""
    try:
        text = os.fsdecode(path)
        os.fsencode(text)
        if "\0" in text:
            raise ValueError("it holds a NUL character")
    except (TypeError, ValueError) as error:
        what, why = f"{shortened(path)} is not a path", str(error)
        raise InputError(what, why, "pass the path of a file or folder as text") from error
    return text


def model_title(source: str | bytes, name: str | None = None) -> str:
    """Return what reports call a model: its file name, with its own name in a prepared file."""
    if isinstance(source, bytes):
        return name or "a model in memory"
    file = os.path.basename(os.path.normpath(source))
    return file if name is None else f"{name} of {file}"


def _path_of_file(file: Any) -> str | None:
    """Return the path of an open file that was not read yet, so that it is mapped and files next to
    it are found. None for any other object.
    """
    try:
        same = os.path.samestat(os.fstat(file.fileno()), os.stat(file.name))
        return os.path.abspath(file.name) if same and file.tell() == 0 else None
    except (AttributeError, OSError, TypeError, ValueError):
        return None


def _rest_of_file(file: ModelFile) -> bytes:
    """Return the unread bytes of a file."""
    content = file.read()
    if not isinstance(content, bytes):
        why = f"its read() returns {type(content).__name__}, not bytes"
        raise InputError("the file cannot be read as a model", why, "open it with mode 'rb'")
    if not content:
        why = "nothing is left to read"
        raise InputError("the file contains no model", why, "rewind it first: file.seek(0)")
    return content


def model_reader(
    model: str | bytes, store: stores.Store | None, config: Config
) -> Callable[[], conversions.ReadableModel]:
    """Return a function that converts the model to a readable format, once."""

    def make() -> conversions.ReadableModel:
        return conversions.make_readable(model, store, config.conversion_limit, config.trust)

    return cache_once(make)


def open_request(source: str | bytes, options: SessionOptions) -> tuple[Request, Store | None]:
    """Return the request with its device, and the store."""
    config, timings = options.settings(), Timings()
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
    cache: Any, folder: str | os.PathLike[str] | None, config: Config
) -> stores.Store | None:
    """Return the store of a session: its option `cache`, or `serialization_dir` as `folder`."""
    if folder is not None:
        if not isinstance(cache, str) or cache != AUTO:
            why = "serialization_dir is TFLite's name for the option cache"
            raise InputError(
                "both cache and serialization_dir were passed", why, "pass one of them"
            )
        cache = folder
    if isinstance(cache, str) and cache in (MEMORY, AUTO):
        if cache == MEMORY:
            return stores.memory_store()
        cache = config.cache
    if isinstance(cache, str | os.PathLike):
        return stores.folder_store(path_text(cache), config.cache_limit)
    if cache is not None and not isinstance(cache, stores.Store):
        why = "it must be 'auto', 'memory', a folder or None"
        raise InputError(f"cache is {shortened(cache)}", why, "pass the path of a folder")
    store: stores.Store | None = cache
    return store


def session_device(selection: object, options: PlacementOptions) -> DeviceInfo:
    """Return the device that a model runs on: the CPU, or the device that the caller names."""
    if options.placement == "cpu":
        return CPU
    device = backends.find_device(selection, compiles=False)  # cached plans need no compiler
    return backends.with_threads(device, options.threads)


def check_precision(precision: str, device: DeviceInfo, store: stores.Store | None) -> None:
    """Raise a DeviceError if precision is 'fp16' and the device has no fp16 arithmetic."""
    if precision != "fp16":
        return
    if not backends.determine_facts(device, ("half_arithmetic",), store).half_arithmetic:
        raise DeviceError(
            f"{device.name} has no fp16 arithmetic",
            "a test kernel with fp16 arithmetic did not compile or returned a wrong result",
            "use precision='mixed': fp16 storage, fp32 arithmetic",
        )
