"""Query the driver about an address or a stream of another library."""

from __future__ import annotations

import ctypes
import threading
from ctypes import byref, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from typing import NamedTuple

from fourfold.backends.cuda.binding.calls import call, quick_call

_KIND, _ORDINAL, _START, _SIZE = 2, 9, 11, 12  # values of CUpointer_attribute
_ATTRIBUTES = (c_int * 4)(_KIND, _ORDINAL, _START, _SIZE)
HOST, DEVICE, UNIFIED = 1, 2, 4  # types of memory


class PointerInfo(NamedTuple):
    """Memory behind an address: its type (0 if the driver does not know it), the ordinal of its
    device, and the number of bytes from the address to its end.
    """

    kind: int
    ordinal: int
    remaining: int


class _Answers(ctypes.Structure):
    """Values of the requested attributes."""

    _fields_ = (
        ("start", c_ulonglong),
        ("size", c_size_t),
        ("kind", c_uint),
        ("ordinal", c_int),
    )


class _Scratch(threading.local):
    """Buffers for the driver's answers, per thread: they are used in every run."""

    def __init__(self) -> None:
        self.answers = _Answers()
        base, names = ctypes.addressof(self.answers), ("kind", "ordinal", "start", "size")
        self.addresses = (c_void_p * 4)(*(base + getattr(_Answers, name).offset for name in names))


_scratch = _Scratch()


def pointer_info(address: int) -> PointerInfo:
    """Query what the driver knows about an address."""
    answers, addresses = _scratch.answers, _scratch.addresses
    quick_call("cuPointerGetAttributes", c_uint(4), _ATTRIBUTES, addresses, c_ulonglong(address))
    return PointerInfo(answers.kind, answers.ordinal, answers.start + answers.size - address)


def stream_ordinal(handle: int) -> int:
    """Return the ordinal of a stream's device; for the default stream that of the
    current context.
    """
    context, device = c_void_p(), c_int()
    call("cuStreamGetCtx", c_void_p(handle), byref(context))
    call("cuCtxPushCurrent_v2", context)
    try:
        call("cuCtxGetDevice", byref(device))
    finally:
        call("cuCtxPopCurrent_v2", byref(c_void_p()))
    return device.value
