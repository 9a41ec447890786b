"""Players: each folder plays plans by one GPU API; everybody else asks for devices here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, nearest
from fourfold.plan import Plan
from fourfold.players.protocol import Backend, BuiltProgram, LaunchTimer, Player

__all__ = [
    "Backend",
    "BuiltProgram",
    "LaunchTimer",
    "Player",
    "backend_of",
    "backends",
    "devices",
    "find_device",
    "make_player",
    "probe",
]

_ORDER = {"gpu": 0, "other": 1, "cpu": 2}
_INSTALL = (
    "install the GPU's OpenCL driver, or 'pip install fourfold[cpu]' to run on the CPU by PoCL"
)


@cache
def backends() -> Mapping[str, Backend]:
    """The back ends by name: every folder beside this file has one."""
    names = [info.name for info in iter_modules(__path__) if info.ispkg]
    found = (import_module(f"{__name__}.{name}").BACKEND for name in names)
    return {backend.name: backend for backend in found}


def backend_of(device: DeviceInfo) -> Backend:
    """Who plays on a device."""
    return backends()[device.api]


def probe(device: DeviceInfo, quantised: bool = False) -> DeviceInfo:
    """The same device with the facts that only a trial tells."""
    return backend_of(device).probe(device, quantised)


def make_player(device: DeviceInfo, plan: Plan, program: BuiltProgram | None = None) -> Player:
    """A player of the plan on the device."""
    return backend_of(device).make_player(device, plan, program)


@cache
def devices() -> tuple[DeviceInfo, ...]:
    """The facts of every device on this machine, GPUs first."""
    found: list[DeviceInfo] = []
    problems: list[DeviceError] = []
    for backend in _listed():
        try:
            found += backend.devices()
        except DeviceError as error:
            problems.append(error)
    if not found and problems:
        raise problems[0]
    found.sort(key=lambda info: _ORDER[info.kind])
    return tuple(_numbered(info, index) for index, info in enumerate(found))


def _listed() -> Iterator[Backend]:
    return (backend for backend in backends().values() if backend.listed)


def _numbered(info: DeviceInfo, index: int) -> DeviceInfo:
    return DeviceInfo(**{**info.__dict__, "index": index})


def find_device(wanted: str | int | DeviceInfo = "auto") -> DeviceInfo:
    """The device of this number, or with this in its name, vendor or platform; 'auto' the first."""
    if isinstance(wanted, DeviceInfo):
        return wanted
    known = devices()
    if not known:
        raise DeviceError("no OpenCL device was found", "the platforms have no devices", _INSTALL)
    text = str(wanted).strip().lower()
    if text == "auto":
        return known[0]
    if text.isdigit() and int(text) < len(known):
        return known[int(text)]
    for info in known:
        if text == info.kind or any(
            text in field.lower() for field in (info.name, info.platform, info.vendor)
        ):
            return info
    names = [f"{info.index}: {info.name}" for info in known]
    raise DeviceError(
        f"there is no device {wanted!r}",
        f"this machine has {', '.join(names)}",
        nearest(str(wanted), [info.name for info in known]) + " or see 'fourfold devices'",
    )
