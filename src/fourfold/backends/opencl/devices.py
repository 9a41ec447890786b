"""OpenCL devices, found once per process, each with one context that all sessions share."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from threading import Lock

import numpy as np

from fourfold.backends.claims import claims_of, language_version
from fourfold.backends.opencl import binding as cl
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.support.forks import check_not_lost
from fourfold.support.log import Log

_KINDS = {1 << 2: "gpu", 1 << 1: "cpu"}  # bits of CL_DEVICE_TYPE
_UUID = "cl_khr_device_uuid"
log = Log("backends.opencl")
_INSTALL = (
    "install the GPU's OpenCL driver, or 'pip install fourfold[cpu]' to run on the CPU with PoCL"
)
_contexts: dict[tuple[DeviceInfo, int], cl.Context] = {}  # our own, and those of callers
_queues: dict[cl.Context, cl.Queue] = {}  # one per context, for work that belongs to no player
_lock = Lock()  # all sessions on a device must get the same context
# Sub-devices by their facts. They are never released: a session on one may be opened at any time.
_parts: dict[DeviceInfo, cl.Device] = {}


def facts_of(device: cl.Device) -> DeviceInfo:
    extensions = device.text(0x1030).split()
    bits, version = device.number(0x1000), device.text(0x102F)
    kind = next((name for bit, name in _KINDS.items() if bits & bit), "other")
    return DeviceInfo(
        name=device.name,
        vendor=device.text(0x102C),
        platform=device.platform.name,
        driver=device.text(0x102D),
        version=version,
        kind=kind,
        compute_units=device.number(0x1002),
        memory=device.number(0x101F),
        max_allocation=device.number(0x1010),
        max_work_group=device.number(0x1004),
        local_memory=device.number(0x1023),
        alignment=max(1, device.number(0x1019) // 8),
        unified_memory=bool(device.number(0x1035)),
        claims=claims_of(
            f"{device.name} {device.text(0x102C)}",
            device.platform.name,
            kind,
            extensions,
            device.number(0x1040) if device.number(0x1016) else 0,
            _multiplies_bytes() if kind == "cpu" else False,
        ),
        language_version=language_version(version),
        address_bits=device.number(0x100D),
        uuid=device.raw(0x106A).hex() if _UUID in extensions else "",
    )


@cache
def _multiplies_bytes() -> bool:
    """Return True if the CPU has int8 dot product instructions, according to Linux."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            words = next((line for line in file if line.startswith("flags")), "").split()
    except OSError:
        return False
    return {"avx512_vnni", "avx512vl"} <= set(words)


@cache
def found_devices() -> tuple[tuple[DeviceInfo, cl.Device], ...]:
    """Return every OpenCL device with its facts."""
    check_not_lost(cl.API)
    try:
        platforms = cl.platforms()
    except (cl.Error, OSError) as error:
        raise DeviceError("no OpenCL platform was found", reason_of(error), _INSTALL) from error
    all_devices: list[tuple[DeviceInfo, cl.Device]] = []
    for platform in platforms:
        try:
            all_devices += [(facts_of(device), device) for device in platform.devices()]
        except cl.Error as error:  # raised by a platform without devices
            log.debug("%s has no device: %s", platform.name, error)
    return tuple(
        (replace(info, ordinal=number), device) for number, (info, device) in enumerate(all_devices)
    )


def devices() -> tuple[DeviceInfo, ...]:
    """Return the facts of every OpenCL device on this machine."""
    return tuple(info for info, _ in found_devices())


@cache
def device_part(info: DeviceInfo, units: int) -> DeviceInfo | None:
    """Return a sub-device with this many compute units; None if the driver cannot partition it."""
    try:
        handle = _handle(info).part(units)
    except cl.Error:
        return None
    part = replace(facts_of(handle), ordinal=info.ordinal, index=info.index)
    if part.compute_units != units:
        return None
    _parts[part] = handle
    return part


def context_of(info: DeviceInfo) -> cl.Context:
    """Return the context of a device, shared by all sessions on it."""
    check_not_lost(cl.API)
    with _lock:
        key = (info, info.shared_context)
        if key not in _contexts:
            _contexts[key] = _make_context(info)
        return _contexts[key]


def _make_context(info: DeviceInfo) -> cl.Context:
    """Create a context, or use the caller's if sessions share it."""
    if info.shared_context:
        return cl.Context.held(info.shared_context, _handle(info))
    return cl.Context(_handle(info))


def _handle(info: DeviceInfo) -> cl.Device:
    all_devices = (*found_devices(), *_parts.items())
    handle = next((device for other, device in all_devices if other == info), None)
    if handle is None:
        raise DeviceError(
            f"{info} is not available any more", "the driver listed it before", _INSTALL
        )
    return handle


def queue_of(info: DeviceInfo) -> cl.Queue:
    """Return a queue for work that belongs to no player."""
    context = context_of(info)
    with _lock:
        if context not in _queues:
            shared = info.shared_queue
            _queues[context] = cl.Queue.of(shared) if shared else cl.Queue(context)
        return _queues[context]


def drop_if_lost(info: DeviceInfo, context: cl.Context) -> bool:
    """Return True if a context is unusable, for example after a GPU reset; the next request for the
    device's context creates a new one.
    """
    if _works(context):
        return False
    with _lock:
        key = (info, info.shared_context)
        if _contexts.get(key) is context:
            del _contexts[key]
        _queues.pop(context, None)
    return True


def _works(context: cl.Context) -> bool:
    """Return True if a few bytes can be copied to the device and back."""
    sent, received = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    try:
        cl.Queue(context).read(cl.Buffer.of(context, sent), received)
    except cl.Error as error:
        return error.no_memory_object
    return bool(np.array_equal(sent, received))


def reason_of(error: Exception) -> str:
    """Return an error of the driver as one line."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
