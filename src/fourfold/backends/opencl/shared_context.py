"""Contexts and queues of the caller that sessions run on, to share memory and order."""

from __future__ import annotations

from ctypes import c_void_p
from dataclasses import replace
from typing import Any

from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl.devices import found_devices
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError

_DEVICES = 0x1081  # of a context
_CONTEXT, _DEVICE, _PROPERTIES = 0x1090, 0x1091, 0x1093  # of a queue
_OUT_OF_ORDER = 1


def shared_device(given: Any) -> DeviceInfo | None:
    """Return the device of a `pyopencl.CommandQueue` or `Context`, which sessions then share; None
    for anything else.
    """
    pointer = getattr(given, "int_ptr", None)
    kind = type(given).__name__
    if not isinstance(pointer, int) or kind not in ("CommandQueue", "Context"):
        return None
    if kind == "Context":
        return _find(_numbers("clGetContextInfo", pointer, _DEVICES), pointer, 0)
    if _numbers("clGetCommandQueueInfo", pointer, _PROPERTIES)[0] & _OUT_OF_ORDER:
        what, why = "the queue runs commands out of order", "kernels of a model must run in order"
        raise DeviceError(what, why, "pass a queue without OUT_OF_ORDER_EXEC_MODE_ENABLE")
    (context,) = _numbers("clGetCommandQueueInfo", pointer, _CONTEXT)
    return _find(_numbers("clGetCommandQueueInfo", pointer, _DEVICE), context, pointer)


def _find(devices: tuple[int, ...], context: int, queue: int) -> DeviceInfo:
    for info, device in found_devices():
        if device.pointer.value in devices:
            return replace(info, shared_context=context, shared_queue=queue)
    what, why = "the queue's device is unknown", "it may be a sub-device"
    raise DeviceError(what, why, "create the queue on one of fourfold.devices()")


def _numbers(function: str, pointer: int, what: int) -> tuple[int, ...]:
    data = cl.info(function, c_void_p(pointer), what)
    return tuple(memoryview(data).cast("Q" if len(data) % 8 == 0 else "I"))
