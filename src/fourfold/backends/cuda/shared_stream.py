"""Streams of the caller that sessions submit their work to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fourfold.backends.cuda import binding as cu
from fourfold.backends.cuda.binding.pointers import stream_ordinal
from fourfold.backends.cuda.devices import found_devices
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError

_PROTOCOL = "__cuda_stream__"


def shared_device(given: Any) -> DeviceInfo | None:
    """Return the device of a caller's stream, which sessions then use.

    Accepts a `torch.cuda.Stream`, a `cupy.cuda.Stream`, or any object with `__cuda_stream__`; None
    for anything else.
    """
    handle = _handle(given)
    if handle is None:
        return None
    every = found_devices()
    try:
        ordinal = _ordinal(given, handle)
    except cu.Error as error:
        what, why = f"the {type(given).__name__} is not a CUDA stream", str(error)
        raise DeviceError(what, why, "pass an existing stream of this GPU") from error
    for info, device in every:
        if device.ordinal == ordinal:
            return replace(info, shared_queue=handle or cu.DEFAULT_STREAM)
    what, why = f"the stream belongs to cuda:{ordinal}", "that GPU is not supported"
    raise DeviceError(what, why, "create the stream on a GPU listed by 'fourfold devices'")


def _handle(given: Any) -> int | None:
    """Return the CUstream as a number, 0 for the default stream; None if it is not a stream."""
    protocol = getattr(given, _PROTOCOL, None)
    if protocol is not None:
        protocol = protocol() if callable(protocol) else protocol
        return int(protocol[1])
    names = {"torch": "cuda_stream", "cupy": "ptr", "cupy_backends": "ptr"}
    library = type(given).__module__.partition(".")[0]
    handle = getattr(given, names.get(library, "cuda_stream"), None)
    return handle if isinstance(handle, int) and "Stream" in type(given).__name__ else None


def _ordinal(given: Any, handle: int) -> int:
    """Return the ordinal of the stream's device. Each device has a default stream; a thread without
    a current device uses the first one, as CUDA's own libraries do.
    """
    for name in ("device_index", "device_id"):
        ordinal = getattr(given, name, None)
        if isinstance(ordinal, int) and ordinal >= 0:
            return ordinal
    try:
        return stream_ordinal(handle)
    except cu.Error as error:
        if error.no_context and handle in cu.DEFAULT_STREAMS:
            return 0
        raise
