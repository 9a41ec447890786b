"""A stream of the caller's, into which sessions put their work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.players.cuda import binding as cu
from fourfold.players.cuda.binding.pointers import stream_ordinal
from fourfold.players.cuda.devices import found_devices

_PROTOCOL = "__cuda_stream__"


def shared_device(given: Any) -> DeviceInfo | None:
    """The device of a stream, on which sessions put their work there; None where it is none: a
    `torch.cuda.Stream`, a `cupy.cuda.Stream`, or whatever has `__cuda_stream__`.
    """
    handle = _handle(given)
    if handle is None:
        return None
    every = found_devices()
    try:
        ordinal = _ordinal(given, handle)
    except cu.Error as error:
        what, why = f"the {type(given).__name__} is no stream of CUDA", str(error)
        raise DeviceError(what, why, "pass one that is still there, made on this GPU") from error
    for info, device in every:
        if device.ordinal == ordinal:
            return replace(info, shared_queue=handle or cu.DEFAULT_STREAM)
    what, why = f"the stream is of cuda:{ordinal}", "that GPU is none of those that were found"
    raise DeviceError(what, why, "make the stream on one of 'fourfold devices'")


def _handle(given: Any) -> int | None:
    """The CUstream as a number, 0 for the default stream; None where it is no stream."""
    told = getattr(given, _PROTOCOL, None)
    if told is not None:
        told = told() if callable(told) else told
        return int(told[1])
    names = {"torch": "cuda_stream", "cupy": "ptr", "cupy_backends": "ptr"}
    library = type(given).__module__.partition(".")[0]
    found = getattr(given, names.get(library, "cuda_stream"), None)
    return found if isinstance(found, int) and "Stream" in type(given).__name__ else None


def _ordinal(given: Any, handle: int) -> int:
    """The number of the stream's device. Each has a default stream; that of a thread which works on
    none of them yet is the first one's, as for CUDA's own libraries.
    """
    for name in ("device_index", "device_id"):
        told = getattr(given, name, None)
        if isinstance(told, int) and told >= 0:
            return told
    try:
        return stream_ordinal(handle)
    except cu.Error as error:
        if error.no_context and handle in cu.DEFAULT_STREAMS:
            return 0
        raise
