"""Conversion of objects that hold numbers to NumPy arrays, as views of their memory if possible."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from fourfold.backends.dlpack_devices import NAMES, ON_HOST, device_kind
from fourfold.errors import InputError

NUMPY_PROTOCOLS = ("__array__", "__array_interface__", "__array_struct__")
NUMPY_FLOATS = ("torch.float16", "torch.float32", "torch.float64")
# Exceptions of objects that offer access to their memory and then refuse it.
FAILURES = (AttributeError, BufferError, OverflowError, RuntimeError, TypeError, ValueError)


def as_array(value: Any, owner: str) -> np.ndarray:
    """Return an object as an array.

    Accepts NumPy arrays, objects with the buffer protocol, `__array_interface__`, `__array__` or
    `__dlpack__`, numbers, and lists of numbers. Raises an InputError for anything else; `owner`
    names the array in messages.
    """
    if isinstance(value, np.ndarray):
        return _without_mask(value, owner)
    device = gpu_of(value)
    if device:
        raise _gpu_error(value, owner, device)
    _refuse_hidden(value, owner)
    try:
        array = _converted(value)
    except FAILURES as error:
        raise _refused(value, owner, error) from error
    if array.dtype.kind == "O" and not array.ndim:
        raise _no_array(value, owner)
    return array


def writable_view(value: Any, owner: str) -> np.ndarray:
    """Return the memory of an object as a writable array, never a copy."""
    device = "" if isinstance(value, np.ndarray) else gpu_of(value)
    if device:
        what = f"{owner} is a {_title(value)} in the memory of a GPU ({device})"
        why = "this session writes results with the CPU or another device"
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
        what, why = (
            f"{owner} is a {_title(value)}, which has no memory to write to",
            _first_line(error),
        )
        raise InputError(what, why, "pass a NumPy array, or None for a new one") from error


def _buffer(value: Any) -> np.ndarray:
    return np.asarray(memoryview(value))


def gpu_of(value: Any) -> str:
    """Return the API of the GPU whose memory holds an object; '' if the CPU can read it."""
    kind = device_kind(value)
    if kind is None:
        return "CUDA" if hasattr(value, "__cuda_array_interface__") else ""
    return "" if kind in ON_HOST else NAMES.get(kind, f"device {kind} of DLPack")


def is_picture(value: Any) -> bool:
    """Return whether an object is a Pillow image, without importing Pillow."""
    return _is_of(value, "PIL.Image", "Image")


def _is_of(value: Any, module: str, name: str) -> bool:
    """Return whether an object is an instance of a class; False if its module is not imported."""
    cls = getattr(sys.modules.get(module), name, None)
    return cls is not None and isinstance(value, cls)


def _converted(value: Any) -> np.ndarray:
    if isinstance(value, bytes | bytearray):
        return np.frombuffer(value, np.uint8)
    if hasattr(value, "__dlpack__") and not any(hasattr(value, name) for name in NUMPY_PROTOCOLS):
        return np.from_dlpack(value)
    return np.asarray(value)


def _without_mask(array: np.ndarray, owner: str) -> np.ndarray:
    """Return an instance of an ndarray subclass as a plain array. Masked elements are an error."""
    if _is_of(array, "numpy.ma", "MaskedArray") and np.any(array.mask):  # type: ignore[attr-defined]
        what, why = f"{owner} has masked elements", "a model reads all elements"
        raise InputError(what, why, "pass x.filled(value) with a value for the masked elements")
    return np.asarray(array)


def _refuse_hidden(value: Any, owner: str) -> None:
    """Raise an InputError for an array without any memory protocol: reading it element by element
    would be too slow.
    """
    protocols = ("__dlpack__", *NUMPY_PROTOCOLS)
    if not hasattr(value, "shape") or any(hasattr(value, name) for name in protocols):
        return
    try:
        memoryview(value)
    except TypeError as error:
        what = f"{owner} is a {_title(value)}, whose memory NumPy cannot access"
        why = f"it has none of {', '.join(protocols)}, and no buffer"
        raise InputError(what, why, f"pass {_fix(value)}") from error


def _gpu_error(value: Any, owner: str, device: str) -> InputError:
    what = f"{owner} is a {_title(value)} in the memory of a GPU ({device})"
    why = "the CPU reads this argument, and cannot access the memory of that GPU"
    return InputError(what, why, f"pass {_fix(value)}")


def _refused(value: Any, owner: str, error: Exception) -> InputError:
    if isinstance(value, list | tuple):
        what, fix = (
            f"{owner} is a {_title(value)} that is not an array",
            "make all rows equally long",
        )
        return InputError(what, _first_line(error), fix)
    what = f"{owner} is a {_title(value)} that cannot be read as an array"
    return InputError(what, _first_line(error), f"pass {_fix(value)}")


def _no_array(value: Any, owner: str) -> InputError:
    if value is None:
        return InputError(f"{owner} is None", "the model needs an array", "pass an array")
    what, why = f"{owner} is a {_title(value)}, which is not an array", "it has no shape"
    if isinstance(value, os.PathLike):
        return InputError(what, why, "load it first: np.load(path), or PIL.Image.open(path)")
    return InputError(what, why, f"pass {_fix(value)}")


def _fix(value: Any) -> str:
    """Return the expression that converts an object to an array, in the terms of its library."""
    if hasattr(value, "detach") and hasattr(value, "device"):
        return _torch_fix(value)
    conversions = {"toarray": "x.toarray()", "get": "x.get()", "copy_to_host": "x.copy_to_host()"}
    conversions |= {"numpy": "x.numpy()", "__array__": "np.asarray(x)", "__iter__": "list(x)"}
    return next(
        (expression for name, expression in conversions.items() if hasattr(value, name)), "an array"
    )


def _torch_fix(tensor: Any) -> str:
    """Return the expression that makes a PyTorch tensor readable for NumPy."""
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
    """Return the class name of an object, with its library unless that is Python itself."""
    kind = type(value)
    library = kind.__module__.partition(".")[0]
    return kind.__qualname__ if library == "builtins" else f"{library}.{kind.__qualname__}"


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
