"""CUDA devices, found once per process, each with the primary context that all sessions share."""

from __future__ import annotations

from functools import cache
from threading import Lock

from fourfold.backends.cuda import binding as cu
from fourfold.backends.cuda.architectures import (
    ALIGNMENT,
    MIN_CAPABILITY,
    architecture_name,
    facts_of,
    is_host_ordered,
    older_architectures,
)
from fourfold.backends.cuda.binding import device as attributes
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.support.forks import ForkSafeLock, check_not_lost

_MIN_DRIVER_VERSION = 11040  # 11.4: needed to capture and launch graphs
_INSTALL = "install NVIDIA's driver, or use device='auto' for devices of other drivers"
_OTHERWISE = "use device='opencl:0', which also supports older GPUs"
_UPDATE = "update NVIDIA's driver (525 or newer; on a Jetson a newer JetPack), or use OpenCL"
_UNAVAILABLE = 46
_IN_USE = "end the program that uses it exclusively, or allow several with 'nvidia-smi -c DEFAULT'"
_OPEN_AGAIN = "close other programs that use the GPU, or try again"
_RESTART = "restart the process: CUDA does not work in this one any more"
_NO_START = "check the output of nvidia-smi; reboot, or reinstall NVIDIA's driver"
# Fixes by status if the driver does not start.
_START = {
    34: "remove the folder 'stubs' of the CUDA toolkit from LD_LIBRARY_PATH",
    100: "check nvidia-smi, CUDA_VISIBLE_DEVICES, and the GPU options of the container",
    802: "start nvidia-fabricmanager, or wait until it has started",
    803: "reboot: the kernel module of the driver has another version",
    804: "remove the folder 'compat' of CUDA from LD_LIBRARY_PATH, or update NVIDIA's driver",
}
_contexts: dict[DeviceInfo, cu.Context] = {}
_streams: dict[cu.Context, cu.Stream] = {}  # one per context, for work that belongs to no player
_lock = ForkSafeLock(Lock)  # all sessions on a device must get the same context


@cache
def found_devices() -> tuple[tuple[DeviceInfo, cu.Device], ...]:
    """Return every GPU that kernels can be built for, with its facts; a DeviceError if there is
    none.
    """
    check_not_lost(cu.API)
    try:
        every = cu.devices()
        version = cu.driver_version()
    except OSError as error:
        what = "CUDA cannot be used: its driver is not installed"
        raise DeviceError(what, str(error), _INSTALL) from error
    except cu.Error as error:
        what = "no CUDA device was found" if error.no_device else "CUDA's driver does not start"
        raise DeviceError(what, str(error), _START.get(error.status, _NO_START)) from error
    except AttributeError as error:  # raised by ctypes for a missing function
        what = "the CUDA driver library is not NVIDIA's, or too old"
        raise DeviceError(what, str(error), _UPDATE) from error
    if version < _MIN_DRIVER_VERSION:
        required = _version_text(_MIN_DRIVER_VERSION)
        why = f"it supports CUDA {_version_text(version)}, but {required} is required"
        raise DeviceError("CUDA's driver is too old", why, _UPDATE)
    supported = [one for one in every if _capability(one) >= MIN_CAPABILITY]
    if every and not supported:
        names = ", ".join(f"{one.name} ({architecture_name(_capability(one))})" for one in every)
        what, why = "no GPU is new enough for CUDA kernels", f"this machine has {names}"
        raise DeviceError(
            what, f"{why}; {architecture_name(MIN_CAPABILITY)} is required", _OTHERWISE
        )
    return tuple((_facts(one, version), one) for one in supported)


def devices() -> tuple[DeviceInfo, ...]:
    """Return the facts of every such GPU on this machine."""
    return tuple(info for info, _ in found_devices())


def context_of(info: DeviceInfo) -> cu.Context:
    """Return the primary context of a device, which all sessions on it share."""
    check_not_lost(cu.API)
    with _lock:
        if info not in _contexts:
            _contexts[info] = _make_context(info)
        return _contexts[info]


def _make_context(info: DeviceInfo) -> cu.Context:
    if not info.present:
        why = "models can only be prepared for it"
        raise DeviceError(f"{info.name} is not attached", why, "run on a machine with such a GPU")
    handle = next((device for found, device in found_devices() if found == info), None)
    if handle is None:
        raise DeviceError(
            f"{info} is not available any more", "the driver listed it before", _INSTALL
        )
    try:
        return cu.Context(handle)
    except cu.Error as error:
        fix = _RESTART if error.lost else _OPEN_AGAIN
        fix = _IN_USE if error.status == _UNAVAILABLE else fix
        raise DeviceError(f"{info.name} cannot be opened", str(error), fix) from error


def stream_of(info: DeviceInfo) -> cu.Stream:
    """Return a stream for work that belongs to no player."""
    if info.shared_queue:
        return cu.Stream.of(info.shared_queue)
    context = context_of(info)
    with _lock:
        if context not in _streams:
            with context:
                _streams[context] = cu.Stream()
        return _streams[context]


def drop_context(info: DeviceInfo, context: cu.Context) -> bool:
    """Release a lost context; the next request for the device's context creates a new one.

    Returns False if another library of the process still holds the old one.
    """
    with _lock:
        if _contexts.get(info) is context:
            del _contexts[info]
        _streams.pop(context, None)
    try:
        return context.drop()
    except cu.Error:
        return False


def forget_contexts() -> None:
    """Forget all contexts; the next request opens them again."""
    with _lock:
        _contexts.clear()
        _streams.clear()


def _capability(device: cu.Device) -> tuple[int, int]:
    return device.attribute(attributes.MAJOR), device.attribute(attributes.MINOR)


def _version_text(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def _facts(device: cu.Device, version: int) -> DeviceInfo:
    capability, memory = _capability(device), device.memory
    cooperates = bool(device.attribute(attributes.COOPERATES))
    integrated = bool(device.attribute(attributes.INTEGRATED))
    maps_host = bool(device.attribute(attributes.MAPS_HOST)) and not integrated
    claims = facts_of(capability, cooperates, maps_host and is_host_ordered())
    claims["host_pointers"] = bool(device.attribute(attributes.REACHES_PAGEABLE))
    return DeviceInfo(
        name=device.name,
        vendor="NVIDIA",
        platform="CUDA",
        driver=_version_text(version),
        version=architecture_name(capability),
        kind="gpu",
        compute_units=device.attribute(attributes.UNITS),
        memory=memory,
        max_allocation=memory,
        max_work_group=device.attribute(attributes.WORK_GROUP),
        local_memory=device.attribute(attributes.LOCAL_MEMORY),
        asked_local_memory=device.attribute(attributes.ASKED_LOCAL_MEMORY),
        alignment=ALIGNMENT,
        unified_memory=integrated,
        claims=claims,
        api="cuda",
        language="cuda",
        language_version=f"{capability[0]}.{capability[1]}",
        architectures=(architecture_name(capability), *older_architectures(capability)),
        ordinal=device.ordinal,
        uuid=device.uuid,
    )
