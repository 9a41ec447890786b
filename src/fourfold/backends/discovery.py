"""Devices of this machine: each GPU once, through the preferred API that offers it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache

from fourfold.backends import protocol, registry
from fourfold.backends.registry import backend_of
from fourfold.device import DeviceInfo, DeviceList
from fourfold.errors import DeviceError, FourfoldError, InputError, nearest
from fourfold.support.forks import check_not_lost
from fourfold.support.log import DEBUG, Log

log = Log("backends")

# Order of preference if several APIs offer the same GPU; other APIs come last.
API_ORDER = ("cuda", "opencl", "webgpu")
_KIND_ORDER = {"gpu": 0, "other": 1, "cpu": 2}
# Platforms that come last if several offer the CPU: MobileNet v1 0.25 takes 0.75 s on Mesa's
# software renderer, but a millisecond on PoCL and Intel's runtime.
SLOW_ON_CPUS = ("rusticl",)
_INSTALL = (
    "install the GPU's OpenCL driver, or 'pip install fourfold[webgpu]' for Metal, Vulkan and "
    "DX12, or 'pip install fourfold[cpu]' to run on the CPU with PoCL"
)


@cache
def devices() -> DeviceList:
    """Return the facts of every device on this machine, GPUs first and slow platforms last.

    A GPU that several APIs offer is listed once; `others` has its addresses in the other APIs. Some
    backends are only asked if no other one has a device.
    """
    offered, problems = _offered_by(backend for backend in _in_order() if backend.listed)
    for backend in _in_order():
        if not offered and backend.last_resort:
            offered, further = _offered_by([backend])
            problems += further
    if not offered and problems:
        raise problems[0]
    merged = sorted(merge_devices(offered), key=rank_device)
    return DeviceList(replace(info, index=index) for index, info in enumerate(merged))


def _in_order() -> list[protocol.Backend]:
    """Return all backends in order of preference."""
    return sorted(registry.backends().values(), key=lambda backend: _api_rank(backend.name))


def _offered_by(
    candidates: Iterable[protocol.Backend],
) -> tuple[list[DeviceInfo], list[DeviceError]]:
    """Return the devices of these backends, and the errors of backends that have none."""
    all_devices: list[DeviceInfo] = []
    problems: list[DeviceError] = []
    for backend in candidates:
        try:
            own = backend.devices()
        except DeviceError as error:
            log.debug("%s has no device: %s", backend.name, error.what)
            problems.append(error)
            continue
        if log.hears(DEBUG):
            log.debug("%s has %s", backend.name, ", ".join(map(str, own)) or "no device")
        all_devices += own
    return all_devices, problems


def leading_devices() -> list[DeviceInfo]:
    """Return the GPUs at the start of the device list: those of the first API that has any.

    Other APIs are not asked, so `others` is empty.
    """
    for backend in _in_order():
        try:
            own = backend.devices() if backend.listed else ()
        except DeviceError as error:
            log.debug("%s has no device: %s", backend.name, error.what)
            continue
        gpus = [info for info in own if info.kind == "gpu"]
        if gpus:
            return [replace(info, index=index) for index, info in enumerate(gpus)]
    return []


def merge_devices(offered: Iterable[DeviceInfo]) -> list[DeviceInfo]:
    """List each GPU once, through its preferred API, with its addresses in the others."""
    merged: list[DeviceInfo] = []
    for info in sorted(offered, key=lambda info: _api_rank(info.api)):
        for position, earlier in enumerate(merged):
            if _is_same_gpu(earlier, info):
                merged[position] = replace(earlier, others=(*earlier.others, info.address))
                break
        else:
            merged.append(info)
    return merged


def rank_device(info: DeviceInfo) -> tuple[int, bool]:
    """Sort key for devices: GPUs first, slow platforms last."""
    return (_KIND_ORDER[info.kind], info.is_cpu and info.platform in SLOW_ON_CPUS)


def _api_rank(api: str) -> tuple[int, str]:
    return (API_ORDER.index(api) if api in API_ORDER else len(API_ORDER), api)


def _is_same_gpu(listed: DeviceInfo, other: DeviceInfo) -> bool:
    """Return True if two APIs offer the same GPU, compared by UUID, else by name and memory.

    A machine may have several GPUs of one name: each is paired with one of every other API.
    """
    apis = {listed.api, *(address.partition(":")[0] for address in listed.others)}
    if other.api in apis or {listed.kind, other.kind} != {"gpu"}:
        return False
    if listed.uuid and other.uuid:
        return listed.uuid == other.uuid
    return (listed.name, listed.memory) == (other.name, other.memory)


def find_device(wanted: object = "auto", compiles: bool = True) -> DeviceInfo:
    """Return the requested device.

    Args:
    wanted: 'auto' for the first device; a number in the device list; an address
    ('opencl:0', 'opencl:part of a name', 'vulkan:0' for WebGPU through Vulkan); an API
    ('opencl') for its first device; a device kind; or a part of a name, platform or vendor. A queue
    or context stands for its device, and sessions share it.
    compiles: fall back to another API of the same GPU if its preferred API has no
    compiler, unless `wanted` names an API.

    Raises a DeviceError for an API that must not be used because the parent process used it before
    the fork.
    """
    if isinstance(wanted, str | int):
        device = _find(wanted)
        device = _with_compiler(device) if compiles and not names_api(wanted) else device
    else:
        device = wanted if isinstance(wanted, DeviceInfo) else _shared_device(wanted)
    check_not_lost(device.api)
    return device


def _find(wanted: str | int) -> DeviceInfo:
    text = str(wanted).strip().lower()
    api, _, part = text.partition(":")
    backend = _named(api)
    if backend is not None:
        elsewhere = backend.reach(str(wanted).partition(":")[2].strip())
        return _find_in_api(api, part.strip()) if elsewhere is None else elsewhere
    device = _first_called(leading_devices(), text)
    if device is not None:
        return device
    available = devices()
    if not available:
        raise DeviceError("no device was found", "no installed driver offers one", _INSTALL)
    device = _first_called(available, text)
    if device is None:
        raise _no_such_device(wanted, available)
    return device


def _first_called(known: Sequence[DeviceInfo], text: str) -> DeviceInfo | None:
    """Return the device with this number or name in a list, or its first device for 'auto'."""
    if text == "auto" or (text.isdecimal() and len(text) < 10):
        number = 0 if text == "auto" else int(text)
        return known[number] if number < len(known) else None
    return next((info for info in known if _is_called(info, text)), None)


def names_api(wanted: object) -> bool:
    """Return True if the caller chose the API: 'cuda', 'opencl:0', a device, a queue."""
    if not isinstance(wanted, str | int):
        return True
    return _named(str(wanted).strip().lower().partition(":")[0]) is not None


def _named(api: str) -> protocol.Backend | None:
    """Return the backend of an API, or the one that reaches it as a platform."""
    every = registry.backends()
    by_platform = (backend for backend in every.values() if api in backend.platforms)
    return every.get(api) or next(by_platform, None)


def find_compiler_problem(device: DeviceInfo) -> DeviceError | None:
    """Return the reason why no kernels can be built for a device; None if they can.

    Most drivers include a compiler.
    """
    if not device.architectures:
        return None
    try:
        registry.backend_of(device).start_compiler(device)
    except DeviceError as error:
        return error
    return None


def same_gpu_in_other_apis(device: DeviceInfo) -> Iterator[DeviceInfo]:
    """Yield the same GPU through other APIs, in order of preference."""
    for info in devices():
        if info.address == device.address:
            yield from map(_find, info.others)


def _with_compiler(device: DeviceInfo) -> DeviceInfo:
    """Return the device, or the same GPU through another API if nothing can be built for it."""
    problem = find_compiler_problem(device)
    if problem is not None:
        for other in same_gpu_in_other_apis(device):
            if find_compiler_problem(other) is None:
                warn_other_api(other, problem)
                return other
    return device


def warn_other_api(other: DeviceInfo, problem: FourfoldError) -> None:
    """Log a warning about the API that is used instead of the preferred one, and the reason."""
    log.warn_once(f"{other.name} runs through {other.address}: {problem.what}; {problem.fix}")


def _shared_device(given: object) -> DeviceInfo:
    """Return the device of a caller's queue, context or stream."""
    candidates = (backend.shared_device(given) for backend in registry.backends().values())
    device = next((one for one in candidates if one is not None), None)
    if device is None:
        what, why = f"a {type(given).__name__} is not a device", "it is neither a name nor a queue"
        fix = "pass a name or number from 'fourfold devices', a pyopencl.CommandQueue, or a stream"
        raise DeviceError(what, why, fix)
    numbers = {info.address: info.index for info in devices()}
    return replace(device, index=numbers.get(device.address, 0))


def find_target(wanted: str | int | DeviceInfo, units: int | None = None) -> DeviceInfo:
    """Return the device to compile for, without running: 'cuda:sm_87' is a board that need not be
    attached. Only such a board accepts a number of `units`.
    """
    api, _, part = str(wanted).strip().lower().partition(":")
    board = None
    if not isinstance(wanted, DeviceInfo) and api in registry.backends():
        board = registry.backends()[api].find_board(part.strip(), units)
    if board is None and units is not None:
        what, why = (
            f"--units {units} is not valid for {wanted}",
            "an attached device reports its own units",
        )
        raise InputError(what, why, "omit --units, or name a board such as cuda:sm_87")
    return find_device(wanted) if board is None else board


def devices_of(api: str) -> list[DeviceInfo]:
    """Return all devices of one API, or of one platform of WebGPU, including those that the device
    list has through another API.
    """
    name = api.strip().lower()
    backend = _named(name)
    if backend is None:
        names = [*registry.backends()]
        what, why = f"unknown API {api!r}", f"the supported APIs are {', '.join(names)}"
        raise InputError(what, why, nearest(name, names))
    own = _offered(backend.name)
    if name != backend.name:
        own = [info for info in own if info.platform.lower() == name]
    if not own:
        raise DeviceError(f"no device of {name} was found", "its drivers offer none", _INSTALL)
    return own


def _find_in_api(api: str, part: str) -> DeviceInfo:
    """Return a device of one API, even if the device list has it through another one."""
    offered = devices_of(api)
    by_platform = api not in registry.backends()
    for position, info in enumerate(offered):
        number = position if by_platform else info.ordinal
        fits = part == str(number) if part.isdigit() else _is_called(info, part)
        if fits or not part:
            return info
    raise _no_such_device(f"{api}:{part}", offered)


def _offered(api: str) -> list[DeviceInfo]:
    """Return the devices of an API, with their numbers in the list of all devices."""
    backend = registry.backends()[api]
    offered = backend.devices()
    listed = _list_with(offered) if backend.listed else ()
    by_address = {info.address: info for info in listed}
    numbers = {address: info.index for info in listed for address in info.others}
    return [
        by_address.get(info.address) or replace(info, index=numbers.get(info.address, 0))
        for info in offered
    ]


def _list_with(offered: Sequence[DeviceInfo]) -> Sequence[DeviceInfo]:
    """Return the list of all devices, or its beginning if that contains these."""
    leading = leading_devices()
    addresses = {info.address for info in leading}
    return leading if addresses.issuperset(info.address for info in offered) else devices()


def _is_called(info: DeviceInfo, text: str) -> bool:
    names = (info.name, info.platform, info.vendor)
    return text == info.kind or any(text in name.lower() for name in names)


def _no_such_device(wanted: str | int, known: Sequence[DeviceInfo]) -> DeviceError:
    names = [f"{info.address} {info.name}" for info in known]
    return DeviceError(
        f"device {wanted!r} was not found",
        f"this machine has {', '.join(names)}",
        nearest(str(wanted), [info.name for info in known]) + " or see 'fourfold devices'",
    )


def with_threads(device: DeviceInfo, threads: int | None) -> DeviceInfo:
    """Return the device limited to this many cores if it is a CPU; None means all cores.

    Logs a warning if the driver cannot limit them.
    """
    if threads is None or not device.is_cpu or threads >= device.compute_units:
        return device
    limited = backend_of(device).with_threads(device, threads)
    if limited is None:
        usage = f"{device} uses all {device.compute_units} cores: its driver cannot limit them"
        log.warn_once(
            f"{usage}; for PoCL, set FOURFOLD_THREADS={threads} before starting the process"
        )
        return device
    return limited
