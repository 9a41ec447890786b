"""The devices of this machine: each piece of hardware once, by the best API that offers it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, InputError, nearest
from fourfold.forks import check_not_lost
from fourfold.players import protocol, registry

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
def devices() -> tuple[DeviceInfo, ...]:
    """The facts of every device on this machine, GPUs first, what is known to be slow last.

    A GPU that several APIs offer is there once; `others` are its addresses in the other APIs. Some
    back ends are only asked where no other one has a device.
    """
    every = sorted(registry.backends().values(), key=lambda backend: _api_rank(backend.name))
    found, problems = _offered_by(backend for backend in every if backend.listed)
    for backend in every:
        if not found and backend.last_resort:
            found, further = _offered_by([backend])
            problems += further
    if not found and problems:
        raise problems[0]
    once = sorted(merge_devices(found), key=_rank)
    return tuple(replace(info, index=index) for index, info in enumerate(once))


def _offered_by(
    several: Iterable[protocol.Backend],
) -> tuple[list[DeviceInfo], list[DeviceError]]:
    """The devices of these back ends, and why some have none."""
    found: list[DeviceInfo] = []
    problems: list[DeviceError] = []
    for backend in several:
        try:
            found += backend.devices()
        except DeviceError as error:
            problems.append(error)
    return found, problems


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


def _rank(info: DeviceInfo) -> tuple[int, bool]:
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


def find_device(wanted: object = "auto") -> DeviceInfo:
    """The device that is wanted: 'auto' is the first, a number that of the list, 'opencl:0' or
    'opencl:part of a name' one of an API, 'opencl' the first of it, 'vulkan:0' one that WebGPU has
    by Vulkan; else a kind, or a part of a device's name, platform or vendor. A queue or context of
    the caller's stands for its device, on which sessions share it. A device of an API that this
    process may not call, because its parent did, is a DeviceError.
    """
    if isinstance(wanted, str | int):
        found = _find(wanted)
    else:
        found = wanted if isinstance(wanted, DeviceInfo) else _shared_device(wanted)
    check_not_lost(found.api)
    return found


def _find(wanted: str | int) -> DeviceInfo:
    text = str(wanted).strip().lower()
    api, _, part = text.partition(":")
    for backend in registry.backends().values():
        if api == backend.name:
            return _choose(api, part.strip(), _offered(api))
        if api in backend.platforms:
            every = _offered(backend.name)
            return _choose(api, part.strip(), [one for one in every if one.platform.lower() == api])
    known = devices()
    if not known:
        raise DeviceError("no device was found", "the drivers' platforms have none", _INSTALL)
    if text == "auto":
        return known[0]
    if text.isdigit() and int(text) < len(known):
        return known[int(text)]
    for info in known:
        if _is_called(info, text):
            return info
    raise _no_such_device(wanted, known)


def _shared_device(given: object) -> DeviceInfo:
    """The device behind what a caller has of an API: a queue, a context, a stream."""
    found = (backend.shared_device(given) for backend in registry.backends().values())
    device = next((one for one in found if one is not None), None)
    if device is None:
        what, why = f"a {type(given).__name__} is no device", "it is neither a name nor a queue"
        fix = "pass a name or a number of 'fourfold devices', or a pyopencl.CommandQueue"
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


def _choose(api: str, part: str, offered: Sequence[DeviceInfo]) -> DeviceInfo:
    """One of the devices of an API, by its number there or a part of its name."""
    if not offered:
        raise DeviceError(f"no device of {api} was found", "its drivers have none", _INSTALL)
    numbered = api in registry.backends()
    for place, info in enumerate(offered):
        number = info.ordinal if numbered else place
        if not part or (part == str(number) if part.isdigit() else _is_called(info, part)):
            return info
    raise _no_such_device(f"{api}:{part}", offered)


def _offered(api: str) -> list[DeviceInfo]:
    """The devices of an API, numbered as in the list of all; those that the list has by a better
    API are among them.
    """
    backend = registry.backends()[api]
    listed = devices() if backend.listed else ()
    known = {info.address: info for info in listed}
    numbers = {address: info.index for info in listed for address in info.others}
    return [
        known.get(info.address) or replace(info, index=numbers.get(info.address, 0))
        for info in backend.devices()
    ]


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
