"""Messages between a session and the process of an isolated engine: a record and arrays.

A message is the length of its record, the record in JSON, and the bytes of the arrays. It contains
no code, so that a process that a hostile model has taken over cannot pass any on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import IO, Any

import numpy as np

_LENGTH_BYTES = 8
_MAX_RECORD_BYTES = 1 << 26
_KINDS = "biufcSU"  # of array elements that are plain bytes
Message = tuple[dict[str, Any], list[Any]]


def write_message(stream: IO[bytes], record: Mapping[str, Any], arrays: Sequence[Any] = ()) -> None:
    """Write a message. Each of the arrays may be None."""
    forms = [None if array is None else _form(array) for array in arrays]
    text = json.dumps({**record, "arrays": forms}).encode()
    stream.write(len(text).to_bytes(_LENGTH_BYTES, "little") + text)
    for array in arrays:
        if array is not None and not array.dtype.hasobject:
            stream.write(np.ascontiguousarray(array).tobytes())
    stream.flush()


def read_message(stream: IO[bytes]) -> Message | None:
    """Read a message; None at the end of the stream. Raises one of `errors.MALFORMED`, EOFError or
    MemoryError for anything else.
    """
    head = stream.read(_LENGTH_BYTES)
    if not head:
        return None
    size = int.from_bytes(head, "little")
    if size > _MAX_RECORD_BYTES:
        raise ValueError(f"a message has {size} bytes")
    record = json.loads(stream.read(size))
    return record, [None if form is None else _array(stream, form) for form in record["arrays"]]


def _form(array: np.ndarray) -> dict[str, Any]:
    """Return the shape and type of an array; an array of texts is part of the record."""
    if not array.dtype.hasobject:
        return {"dtype": array.dtype.str, "shape": array.shape}
    texts = [one.encode() if isinstance(one, str) else bytes(one) for one in array.ravel()]
    return {"texts": [one.decode("latin-1") for one in texts], "shape": array.shape}


def _array(stream: IO[bytes], form: Mapping[str, Any]) -> np.ndarray:
    shape = tuple(int(size) for size in form["shape"])
    if "texts" in form:
        texts = np.empty(len(form["texts"]), object)
        texts[:] = [text.encode("latin-1") for text in form["texts"]]
        return texts.reshape(shape)
    dtype = np.dtype(form["dtype"])
    if dtype.kind not in _KINDS:
        raise TypeError(f"a message has an array of {dtype}")
    array = np.empty(shape, dtype)
    if array.nbytes:
        view = memoryview(array.reshape(-1).view(np.uint8).data)
        while view:
            count = stream.readinto(view)  # type: ignore[attr-defined]
            if not count:
                raise EOFError
            view = view[count:]
    return array
