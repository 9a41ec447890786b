"""CUDA devices: found once, each with the primary context, which all sessions on it share."""

from __future__ import annotations

from functools import cache
from threading import Lock

from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.forks import ForkSafeLock, check_not_lost
from fourfold.players.cuda import binding as cu
from fourfold.players.cuda.architectures import (
    ALIGNMENT,
    LEAST,
    architecture_name,
    facts_of,
    is_host_ordered,
    older_architectures,
)
from fourfold.players.cuda.binding import device as attributes

_LEAST_DRIVER = 11040  # what graphs are captured and launched by
_INSTALL = "install NVIDIA's driver, or use device='auto' for what other drivers offer"
_OTHERWISE = "use device='opencl:0', which plays on older GPUs, too"
_UPDATE = "update NVIDIA's driver (525 or newer; on a Jetson a newer JetPack), or use OpenCL"
_UNAVAILABLE = 46
_IN_USE = "end the program that has it for itself, or 'nvidia-smi -c DEFAULT' lets several have it"
_OPEN_AGAIN = "close other programs that use the GPU, or try again"
_RESTART = "start the process again: CUDA gives nothing more to this one"
_NO_START = "see what nvidia-smi says; start the machine again, or install NVIDIA's driver anew"
# What helps where the driver does not start, by its answer.
_START = {
    34: "take the folder 'stubs' of CUDA's toolkit out of LD_LIBRARY_PATH",
    100: "see what nvidia-smi lists, CUDA_VISIBLE_DEVICES names, and a container is given",
    802: "start nvidia-fabricmanager, or wait until it has started",
    803: "start the machine again: the driver in its kernel is of another version",
    804: "take the folder 'compat' of CUDA out of LD_LIBRARY_PATH, or update NVIDIA's driver",
}
_contexts: dict[DeviceInfo, cu.Context] = {}
_streams: dict[cu.Context, cu.Stream] = {}  # one of each context, for what belongs to no player
_lock = ForkSafeLock(Lock)  # all sessions on a device must get the same context


@cache
def found_devices() -> tuple[tuple[DeviceInfo, cu.Device], ...]:
    """Every GPU that kernels can be built for, with its facts; a DeviceError if there is none."""
    check_not_lost(cu.API)
    try:
        every = cu.devices()
        version = cu.driver_version()
    except OSError as error:
        what = "CUDA cannot be used: its driver is not there"
        raise DeviceError(what, str(error), _INSTALL) from error
    except cu.Error as error:
        what = "no CUDA device was found" if error.no_device else "CUDA's driver does not start"
        raise DeviceError(what, str(error), _START.get(error.status, _NO_START)) from error
    except AttributeError as error:  # of ctypes: a function is not there
        what = "what is in the place of CUDA's driver is another library, or too old"
        raise DeviceError(what, str(error), _UPDATE) from error
    if version < _LEAST_DRIVER:
        why = f"it has CUDA {_spelled(version)}, and {_spelled(_LEAST_DRIVER)} is needed"
        raise DeviceError("CUDA's driver is too old", why, _UPDATE)
    able = [one for one in every if _capability(one) >= LEAST]
    if every and not able:
        names = ", ".join(f"{one.name} ({architecture_name(_capability(one))})" for one in every)
        what, why = "no GPU here is new enough for CUDA kernels", f"there is {names}"
        raise DeviceError(what, f"{why}; {architecture_name(LEAST)} is needed", _OTHERWISE)
    return tuple((_facts(one, version), one) for one in able)


def devices() -> tuple[DeviceInfo, ...]:
    """The facts of every such GPU on this machine."""
    return tuple(info for info, _ in found_devices())


def context_of(info: DeviceInfo) -> cu.Context:
    """The primary context of a device, which all sessions on it share."""
    check_not_lost(cu.API)
    with _lock:
        if info not in _contexts:
            _contexts[info] = _make_context(info)
        return _contexts[info]


def _make_context(info: DeviceInfo) -> cu.Context:
    if not info.present:
        why = "it is a board that models are prepared for"
        raise DeviceError(f"{info.name} is not here", why, "run on 'cuda:0' where such a GPU is")
    handle = next((device for known, device in found_devices() if known == info), None)
    if handle is None:
        raise DeviceError(f"{info} is gone", "it was found before and is no longer there", _INSTALL)
    try:
        return cu.Context(handle)
    except cu.Error as error:
        fix = _RESTART if error.lost else _OPEN_AGAIN
        fix = _IN_USE if error.status == _UNAVAILABLE else fix
        raise DeviceError(f"{info.name} cannot be opened", str(error), fix) from error


def stream_of(info: DeviceInfo) -> cu.Stream:
    """A stream for what belongs to no player."""
    if info.shared_queue:
        return cu.Stream.of(info.shared_queue)
    context = context_of(info)
    with _lock:
        if context not in _streams:
            with context:
                _streams[context] = cu.Stream()
        return _streams[context]


def drop_context(info: DeviceInfo, context: cu.Context) -> bool:
    """Let go of a context in which nothing works any more. Who asks for the device's context from
    now on gets a new one; says whether there can be one, since no other library holds the old.
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
    """Let all contexts be opened anew by who asks for them next."""
    with _lock:
        _contexts.clear()
        _streams.clear()


def _capability(device: cu.Device) -> tuple[int, int]:
    return device.attribute(attributes.MAJOR), device.attribute(attributes.MINOR)


def _spelled(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def _facts(device: cu.Device, version: int) -> DeviceInfo:
    capability, memory = _capability(device), device.memory
    cooperates = bool(device.attribute(attributes.COOPERATES))
    integrated = bool(device.attribute(attributes.INTEGRATED))
    maps_host = bool(device.attribute(attributes.MAPS_HOST)) and not integrated
    return DeviceInfo(
        name=device.name,
        vendor="NVIDIA",
        platform="CUDA",
        driver=_spelled(version),
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
        claims=facts_of(capability, cooperates, maps_host and is_host_ordered()),
        api="cuda",
        language="cuda",
        language_version=f"{capability[0]}.{capability[1]}",
        architectures=(architecture_name(capability), *older_architectures(capability)),
        ordinal=device.ordinal,
        uuid=device.uuid,
    )
