"""What the driver knows of an address, and of a stream of somebody else."""

from __future__ import annotations

import ctypes
import threading
from ctypes import byref, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from typing import NamedTuple

from fourfold.players.cuda.binding.calls import call, quick_call

_KIND, _ORDINAL, _START, _SIZE = 2, 9, 11, 12  # of CUpointer_attribute
_ASKED = (c_int * 4)(_KIND, _ORDINAL, _START, _SIZE)
HOST, DEVICE, UNIFIED = 1, 2, 4  # kinds of memory


class PointerInfo(NamedTuple):
    """Memory behind an address: its kind, 0 where it is none of the driver's, the number of its
    device, and how many bytes of it there are from the address on.
    """

    kind: int
    ordinal: int
    room: int


class _Answers(ctypes.Structure):
    """What is asked of an address, in the order of the questions."""

    _fields_ = (
        ("start", c_ulonglong),
        ("size", c_size_t),
        ("kind", c_uint),
        ("ordinal", c_int),
    )


class _Scratch(threading.local):
    """Where the driver puts its answers, for each thread: it is asked in every run."""

    def __init__(self) -> None:
        self.answers = _Answers()
        base, names = ctypes.addressof(self.answers), ("kind", "ordinal", "start", "size")
        self.places = (c_void_p * 4)(*(base + getattr(_Answers, name).offset for name in names))


_scratch = _Scratch()


def pointer_info(address: int) -> PointerInfo:
    """What the driver knows of an address."""
    found, places = _scratch.answers, _scratch.places
    quick_call("cuPointerGetAttributes", c_uint(4), _ASKED, places, c_ulonglong(address))
    return PointerInfo(found.kind, found.ordinal, found.start + found.size - address)


def stream_ordinal(handle: int) -> int:
    """The number of the device that a stream is of; for the default stream that of the context
    that is current in this thread.
    """
    context, device = c_void_p(), c_int()
    call("cuStreamGetCtx", c_void_p(handle), byref(context))
    call("cuCtxPushCurrent_v2", context)
    try:
        call("cuCtxGetDevice", byref(device))
    finally:
        call("cuCtxPopCurrent_v2", byref(c_void_p()))
    return device.value
