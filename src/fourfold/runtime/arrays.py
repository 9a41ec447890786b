"""Any object that holds numbers as a NumPy array: a view of its memory wherever it has some."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from fourfold.backends.dlpack_devices import NAMES, ON_HOST, device_kind
from fourfold.errors import InputError

NUMPY_WAYS = ("__array__", "__array_interface__", "__array_struct__")
NUMPY_FLOATS = ("torch.float16", "torch.float32", "torch.float64")
# What an object can raise that offers a way to its memory and then does not give it.
FAILURES = (AttributeError, BufferError, OverflowError, RuntimeError, TypeError, ValueError)


def as_array(value: Any, owner: str) -> np.ndarray:
    """The array that an object is, or an InputError that says what it is instead.

    Taken are NumPy arrays, all that has the buffer protocol, `__array_interface__`, `__array__` or
    `__dlpack__`, numbers, and lists of numbers. `owner` is whose array it is, for messages.
    """
    if isinstance(value, np.ndarray):
        return _without_mask(value, owner)
    device = gpu_of(value)
    if device:
        raise _gpu_error(value, owner, device)
    _refuse_hidden(value, owner)
    try:
        found = _converted(value)
    except FAILURES as error:
        raise _refused(value, owner, error) from error
    if found.dtype.kind == "O" and not found.ndim:
        raise _no_array(value, owner)
    return found


def writable_view(value: Any, owner: str) -> np.ndarray:
    """The memory of an object as an array that can be written to; never a copy of it."""
    device = "" if isinstance(value, np.ndarray) else gpu_of(value)
    if device:
        what = f"{owner} is a {_title(value)} in the memory of a GPU ({device})"
        why = "results of this session are written by the CPU, or by another device"
        raise InputError(what, why, "pass a NumPy array, or open the session on that GPU")
    if isinstance(value, np.ndarray):
        array = value if type(value) is np.ndarray else _without_mask(value, owner)
    elif hasattr(value, "__dlpack__"):
        array = _shared(np.from_dlpack, value, owner)
    elif hasattr(value, "__array_interface__"):
        array = _shared(np.asarray, value, owner)
    else:
        array = _shared(_buffer, value, owner)
    if not array.flags.writeable:
        what, why = f"{owner} cannot be written to", f"this {_title(value)} is read-only"
        raise InputError(what, why, "pass an array of your own: np.empty(shape, dtype)")
    return array


def _shared(view: Callable[[Any], np.ndarray], value: Any, owner: str) -> np.ndarray:
    try:
        return view(value)
    except FAILURES as error:
        what, why = f"{owner} is a {_title(value)}, which is no memory", _first_line(error)
        raise InputError(what, why, "pass a NumPy array, or None for a new one") from error


def _buffer(value: Any) -> np.ndarray:
    return np.asarray(memoryview(value))


def gpu_of(value: Any) -> str:
    """The API of the GPU in whose memory an object lies; '' where the CPU can read it."""
    kind = device_kind(value)
    if kind is None:
        return "CUDA" if hasattr(value, "__cuda_array_interface__") else ""
    return "" if kind in ON_HOST else NAMES.get(kind, f"device {kind} of DLPack")


def is_picture(value: Any) -> bool:
    """Whether it is an image of Pillow, which nobody has to have imported."""
    return _is_of(value, "PIL.Image", "Image")


def _is_of(value: Any, module: str, name: str) -> bool:
    """Whether it is of a class that only exists where its module was imported."""
    found = getattr(sys.modules.get(module), name, None)
    return found is not None and isinstance(value, found)


def _converted(value: Any) -> np.ndarray:
    if isinstance(value, bytes | bytearray):
        return np.frombuffer(value, np.uint8)
    if hasattr(value, "__dlpack__") and not any(hasattr(value, way) for way in NUMPY_WAYS):
        return np.from_dlpack(value)
    return np.asarray(value)


def _without_mask(array: np.ndarray, owner: str) -> np.ndarray:
    """An array of a class of its own as a plain one; one of which parts do not count is none."""
    if _is_of(array, "numpy.ma", "MaskedArray") and np.any(array.mask):  # type: ignore[attr-defined]
        what, why = f"{owner} is masked in places", "a model reads all elements"
        raise InputError(what, why, "pass x.filled(value) with the value that stands for them")
    return np.asarray(array)


def _refuse_hidden(value: Any, owner: str) -> None:
    """An array that offers none of the ways is not to be read element by element."""
    ways = ("__dlpack__", *NUMPY_WAYS)
    if not hasattr(value, "shape") or any(hasattr(value, way) for way in ways):
        return
    try:
        memoryview(value)
    except TypeError as error:
        what = f"{owner} is a {_title(value)}, whose memory NumPy cannot reach"
        why = f"it has none of {', '.join(ways)}, and no buffer"
        raise InputError(what, why, f"pass {_fix(value)}") from error


def _gpu_error(value: Any, owner: str, device: str) -> InputError:
    what = f"{owner} is a {_title(value)} in the memory of a GPU ({device})"
    why = "what is passed here is read by the CPU, which cannot follow a pointer into that memory"
    return InputError(what, why, f"pass {_fix(value)}")


def _refused(value: Any, owner: str, error: Exception) -> InputError:
    if isinstance(value, list | tuple):
        what, fix = f"{owner} is a {_title(value)} that is no array", "make all its rows as long"
        return InputError(what, _first_line(error), fix)
    what = f"{owner} is a {_title(value)} that cannot be read as an array"
    return InputError(what, _first_line(error), f"pass {_fix(value)}")


def _no_array(value: Any, owner: str) -> InputError:
    if value is None:
        return InputError(f"{owner} is None", "the model reads an array", "pass one")
    what, why = f"{owner} is a {_title(value)}, which is no array", "nothing of it says its shape"
    if isinstance(value, os.PathLike):
        return InputError(what, why, "load it first: np.load(path), or PIL.Image.open(path)")
    return InputError(what, why, f"pass {_fix(value)}")


def _fix(value: Any) -> str:
    """How an object that has numbers somewhere becomes an array, in its own library's words."""
    if hasattr(value, "detach") and hasattr(value, "device"):
        return _torch_fix(value)
    known = {"toarray": "x.toarray()", "get": "x.get()", "copy_to_host": "x.copy_to_host()"}
    known |= {"numpy": "x.numpy()", "__array__": "np.asarray(x)", "__iter__": "list(x)"}
    return next((how for name, how in known.items() if hasattr(value, name)), "an array")


def _torch_fix(tensor: Any) -> str:
    """What has to be done with a tensor of PyTorch before NumPy can have its memory."""
    dtype = str(tensor.dtype)
    steps = {
        "detach": tensor.requires_grad,
        "cpu": tensor.device.type != "cpu",
        "to_dense": str(tensor.layout) != "torch.strided",
        "float": "float" in dtype and dtype not in NUMPY_FLOATS,
    }
    needed = [f".{name}()" for name, applies in steps.items() if applies]
    return f"x{''.join(needed or ['.numpy()'])}"


def _title(value: Any) -> str:
    """The class of an object, with its library where that is not Python itself."""
    kind = type(value)
    library = kind.__module__.partition(".")[0]
    return kind.__qualname__ if library == "builtins" else f"{library}.{kind.__qualname__}"


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
