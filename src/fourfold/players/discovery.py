"""The devices of this machine: each piece of hardware once, by the best API that offers it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache

from fourfold.device import DeviceInfo, DeviceList
from fourfold.errors import DeviceError, FourfoldError, InputError, nearest
from fourfold.forks import check_not_lost
from fourfold.log import Log
from fourfold.players import protocol, registry

log = Log("players")

# Which API is preferred where several offer the same GPU; those that are not named come last.
API_ORDER = ("cuda", "opencl", "webgpu")
_KIND_ORDER = {"gpu": 0, "other": 1, "cpu": 2}
# Who comes last where several offer the processor: on Mesa's software renderer MobileNet v1 0.25
# takes 0.75 s, where PoCL and Intel's runtime take a millisecond.
SLOW_ON_CPUS = ("rusticl",)
_INSTALL = (
    "install the GPU's OpenCL driver, or 'pip install fourfold[webgpu]' for Metal, Vulkan and "
    "DX12, or 'pip install fourfold[cpu]' to run on the CPU by PoCL"
)


@cache
def devices() -> DeviceList:
    """The facts of every device on this machine, GPUs first, what is known to be slow last.

    A GPU that several APIs offer is there once; `others` are its addresses in the other APIs. Some
    back ends are only asked where no other one has a device.
    """
    found, problems = _offered_by(backend for backend in _in_order() if backend.listed)
    for backend in _in_order():
        if not found and backend.last_resort:
            found, further = _offered_by([backend])
            problems += further
    if not found and problems:
        raise problems[0]
    once = sorted(merge_devices(found), key=rank_device)
    return DeviceList(replace(info, index=index) for index, info in enumerate(once))


def _in_order() -> list[protocol.Backend]:
    """All back ends, the best first."""
    return sorted(registry.backends().values(), key=lambda backend: _api_rank(backend.name))


def _offered_by(
    several: Iterable[protocol.Backend],
) -> tuple[list[DeviceInfo], list[DeviceError]]:
    """The devices of these back ends, and why some have none."""
    found: list[DeviceInfo] = []
    problems: list[DeviceError] = []
    for backend in several:
        try:
            offered = backend.devices()
        except DeviceError as error:
            log.debug("%s has no device: %s", backend.name, error.what)
            problems.append(error)
            continue
        log.debug("%s has %s", backend.name, ", ".join(map(str, offered)) or "no device")
        found += offered
    return found, problems


def leading_devices() -> list[DeviceInfo]:
    """The GPUs that the list begins with: those of the best API that has any. No other API need be
    asked to find one of them, so `others` is left out.
    """
    for backend in _in_order():
        try:
            found = backend.devices() if backend.listed else ()
        except DeviceError as error:
            log.debug("%s has no device: %s", backend.name, error.what)
            continue
        gpus = [info for info in found if info.kind == "gpu"]
        if gpus:
            return [replace(info, index=index) for index, info in enumerate(gpus)]
    return []


def merge_devices(found: Iterable[DeviceInfo]) -> list[DeviceInfo]:
    """Each GPU once, by its best API, with its addresses in the others."""
    kept: list[DeviceInfo] = []
    for info in sorted(found, key=lambda info: _api_rank(info.api)):
        for place, known in enumerate(kept):
            if _is_same_gpu(known, info):
                kept[place] = replace(known, others=(*known.others, info.address))
                break
        else:
            kept.append(info)
    return kept


def rank_device(info: DeviceInfo) -> tuple[int, bool]:
    """Who comes first where nobody said more."""
    return (_KIND_ORDER[info.kind], info.is_cpu and info.platform in SLOW_ON_CPUS)


def _api_rank(api: str) -> tuple[int, str]:
    return (API_ORDER.index(api) if api in API_ORDER else len(API_ORDER), api)


def _is_same_gpu(known: DeviceInfo, other: DeviceInfo) -> bool:
    """Whether another API offers a GPU that is known: told by its UUID, else by name and memory.

    A machine may have several of one name: each is paired with one of every other API.
    """
    apis = {known.api, *(address.partition(":")[0] for address in known.others)}
    if other.api in apis or {known.kind, other.kind} != {"gpu"}:
        return False
    if known.uuid and other.uuid:
        return known.uuid == other.uuid
    return (known.name, known.memory) == (other.name, other.memory)


def find_device(wanted: object = "auto", compiles: bool = True) -> DeviceInfo:
    """The device that is wanted: 'auto' is the first, a number that of the list, 'opencl:0' or
    'opencl:part of a name' one of an API, 'opencl' the first of it, 'vulkan:0' one that WebGPU has
    by Vulkan; else a kind, or a part of a device's name, platform or vendor. A queue or context of
    the caller's stands for its device, on which sessions share it. A device of an API that this
    process may not call, because its parent did, is a DeviceError.

    Who `compiles` gets a GPU by another API where no compiler is there for its best one, unless
    that was asked for.
    """
    if isinstance(wanted, str | int):
        found = _find(wanted)
        found = _with_compiler(found) if compiles and not names_api(wanted) else found
    else:
        found = wanted if isinstance(wanted, DeviceInfo) else _shared_device(wanted)
    check_not_lost(found.api)
    return found


def _find(wanted: str | int) -> DeviceInfo:
    text = str(wanted).strip().lower()
    api, _, part = text.partition(":")
    backend = _named(api)
    if backend is not None:
        elsewhere = backend.reach(str(wanted).partition(":")[2].strip())
        return _find_in_api(api, part.strip()) if elsewhere is None else elsewhere
    found = _first_called(leading_devices(), text)
    if found is not None:
        return found
    known = devices()
    if not known:
        raise DeviceError("no device was found", "the drivers' platforms have none", _INSTALL)
    found = _first_called(known, text)
    if found is None:
        raise _no_such_device(wanted, known)
    return found


def _first_called(known: Sequence[DeviceInfo], text: str) -> DeviceInfo | None:
    """The one that is meant, of those that a list begins with."""
    if text == "auto" or text.isdigit():
        number = 0 if text == "auto" else int(text)
        return known[number] if number < len(known) else None
    return next((info for info in known if _is_called(info, text)), None)


def names_api(wanted: object) -> bool:
    """Whether a caller says by which API: 'cuda', 'opencl:0', a device, a queue."""
    if not isinstance(wanted, str | int):
        return True
    return _named(str(wanted).strip().lower().partition(":")[0]) is not None


def _named(api: str) -> protocol.Backend | None:
    """The back end of an API, or of one that it plays by."""
    every = registry.backends()
    by_platform = (backend for backend in every.values() if api in backend.platforms)
    return every.get(api) or next(by_platform, None)


def why_no_compiler(device: DeviceInfo) -> DeviceError | None:
    """Why no kernels can be built for a device; None where they can. Most drivers build them."""
    if not device.architectures:
        return None
    try:
        registry.backend_of(device).start_compiler(device)
    except DeviceError as error:
        return error
    return None


def by_other_apis(device: DeviceInfo) -> Iterator[DeviceInfo]:
    """The same GPU as other APIs offer it, the best first."""
    for info in devices():
        if info.address == device.address:
            yield from map(_find, info.others)


def _with_compiler(device: DeviceInfo) -> DeviceInfo:
    """The device, or the same GPU by another API where nothing can be built for this one."""
    problem = why_no_compiler(device)
    if problem is not None:
        for other in by_other_apis(device):
            if why_no_compiler(other) is None:
                say_other_api(other, problem)
                return other
    return device


def say_other_api(other: DeviceInfo, problem: FourfoldError) -> None:
    """Tells in the log who plays instead of the best API, and why."""
    log.warn_once(f"{other.name} is played by {other.address}: {problem.what}; {problem.fix}")


def _shared_device(given: object) -> DeviceInfo:
    """The device behind what a caller has of an API: a queue, a context, a stream."""
    found = (backend.shared_device(given) for backend in registry.backends().values())
    device = next((one for one in found if one is not None), None)
    if device is None:
        what, why = f"a {type(given).__name__} is no device", "it is neither a name nor a queue"
        fix = "pass a name or a number of 'fourfold devices', a pyopencl.CommandQueue, or a stream"
        raise DeviceError(what, why, fix)
    numbers = {info.address: info.index for info in devices()}
    return replace(device, index=numbers.get(device.address, 0))


def find_target(wanted: str | int | DeviceInfo, units: int | None = None) -> DeviceInfo:
    """The device that is wanted, for who only makes plans and code: 'cuda:sm_87' is a board that
    need not be there. Only of such a board it can be said how many units it has.
    """
    api, _, part = str(wanted).strip().lower().partition(":")
    board = None
    if not isinstance(wanted, DeviceInfo) and api in registry.backends():
        board = registry.backends()[api].find_board(part.strip(), units)
    if board is None and units is not None:
        what, why = f"{wanted} was given {units} units", "a device has the units that it has"
        raise InputError(what, why, "leave --units out, or name a board such as cuda:sm_87")
    return find_device(wanted) if board is None else board


def devices_of(api: str) -> list[DeviceInfo]:
    """The devices of one API, or those that WebGPU has by one: what the list of all has by a better
    API is among them, and what it leaves out.
    """
    name = api.strip().lower()
    backend = _named(name)
    if backend is None:
        known = [*registry.backends()]
        what, why = f"there is no API {api!r}", f"there are {', '.join(known)}"
        raise InputError(what, why, nearest(name, known))
    found = _offered(backend.name)
    if name != backend.name:
        found = [info for info in found if info.platform.lower() == name]
    if not found:
        raise DeviceError(f"no device of {name} was found", "its drivers have none", _INSTALL)
    return found


def _find_in_api(api: str, part: str) -> DeviceInfo:
    """A device of one API, whether another offers it, too, or not."""
    offered = devices_of(api)
    by_platform = api not in registry.backends()
    for place, info in enumerate(offered):
        number = place if by_platform else info.ordinal
        fits = part == str(number) if part.isdigit() else _is_called(info, part)
        if fits or not part:
            return info
    raise _no_such_device(f"{api}:{part}", offered)


def _offered(api: str) -> list[DeviceInfo]:
    """The devices of an API, numbered as in the list of all; those that the list has by a better
    API are among them.
    """
    backend = registry.backends()[api]
    offered = backend.devices()
    listed = _list_with(offered) if backend.listed else ()
    known = {info.address: info for info in listed}
    numbers = {address: info.index for info in listed for address in info.others}
    return [
        known.get(info.address) or replace(info, index=numbers.get(info.address, 0))
        for info in offered
    ]


def _list_with(offered: Sequence[DeviceInfo]) -> Sequence[DeviceInfo]:
    """As much of the list of all as it takes to have these in it."""
    leading = leading_devices()
    begun = {info.address for info in leading}
    return leading if begun.issuperset(info.address for info in offered) else devices()


def _is_called(info: DeviceInfo, text: str) -> bool:
    names = (info.name, info.platform, info.vendor)
    return text == info.kind or any(text in name.lower() for name in names)


def _no_such_device(wanted: str | int, known: Sequence[DeviceInfo]) -> DeviceError:
    names = [f"{info.address} {info.name}" for info in known]
    return DeviceError(
        f"there is no device {wanted!r}",
        f"this machine has {', '.join(names)}",
        nearest(str(wanted), [info.name for info in known]) + " or see 'fourfold devices'",
    )
