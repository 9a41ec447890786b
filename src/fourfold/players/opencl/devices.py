"""OpenCL devices: found once, each with one context that all sessions on it share."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.players.opencl import binding as cl
from fourfold.players.opencl.facts import facts_of

_INSTALL = (
    "install the GPU's OpenCL driver, or 'pip install fourfold[cpu]' to run on the CPU by PoCL"
)


@cache
def found_devices() -> tuple[tuple[DeviceInfo, cl.Device], ...]:
    """Every OpenCL device with its facts."""
    try:
        platforms = cl.platforms()
    except (cl.Error, OSError) as error:
        raise DeviceError("no OpenCL platform was found", reason_of(error), _INSTALL) from error
    found: list[tuple[DeviceInfo, cl.Device]] = []
    for platform in platforms:
        try:
            found += [(facts_of(device), device) for device in platform.devices()]
        except cl.Error:
            continue  # a platform without devices answers with an error
    return tuple(
        (replace(info, ordinal=number), device) for number, (info, device) in enumerate(found)
    )


def devices() -> tuple[DeviceInfo, ...]:
    """The facts of every OpenCL device on this machine."""
    return tuple(info for info, _ in found_devices())


@cache
def context_of(info: DeviceInfo) -> cl.Context:
    """One context for each device, shared by all sessions on it."""
    handle = next((device for known, device in found_devices() if known == info), None)
    if handle is None:
        raise DeviceError(f"{info} is gone", "it was found before and is no longer there", _INSTALL)
    return cl.Context(handle)


@cache
def queue_of(info: DeviceInfo) -> cl.Queue:
    """A queue for what belongs to no player."""
    return cl.Queue(context_of(info))


def reason_of(error: Exception) -> str:
    """What a driver said, in one line."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
