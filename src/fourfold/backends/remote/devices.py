"""Devices of other machines, as their drivers describe them to the C player."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fourfold.backends.claims import claims_of
from fourfold.backends.connections import MACHINES
from fourfold.backends.discovery import rank_device
from fourfold.backends.remote.answers import CheckedAnswer
from fourfold.backends.remote.link import Link, SshLink, attached_phones, find_phone
from fourfold.backends.remote.machine import Machine
from fourfold.device import KINDS, DeviceInfo
from fourfold.errors import DeviceError, InputError

# Facts that the C player reports under the same names: texts, and numbers with their limits.
_TEXTS = ("name", "vendor", "platform", "driver", "version", "kind", "language_version", "uuid")
_NUMBERS = {
    "compute_units": (0, 1 << 16),
    "memory": (0, 1 << 60),
    "max_allocation": (0, 1 << 60),
    "max_work_group": (1, 1 << 40),
    "local_memory": (0, 1 << 40),
    "alignment": (1, 1 << 24),
    "address_bits": (32, 64),
}


def reach_device(api: str, name: str) -> DeviceInfo:
    """Return a device by its machine's name, and its number there: 'SERIAL', 'SERIAL/1'."""
    host, slash, number = name.rpartition("/")
    link = _link(api, host if slash else name)
    candidates = devices_of(link)
    if not slash:
        return min(candidates, key=rank_device)
    if not number.isdecimal() or len(number) > 9 or int(number) >= len(candidates):
        names = ", ".join(f"{info.address} {info.name}" for info in candidates)
        raise DeviceError(
            f"device {api}:{name} was not found", f"it has {names}", "name one of them"
        )
    return candidates[int(number)]


def attached_devices() -> tuple[DeviceInfo, ...]:
    """Return all devices of all phones that are ready."""
    ready = [phone.serial for phone in attached_phones() if phone.state == "device"]
    return tuple(info for serial in ready for info in devices_of(find_phone(serial)))


def devices_of(link: Link) -> list[DeviceInfo]:
    """Return all devices of a machine, in the order of its drivers."""
    with MACHINES.using(link.name, lambda: Machine(link)) as machine:
        infos = [_device(row, machine.link.name) for row in machine.devices()]
    if not infos:
        fix = "install the OpenCL driver of its GPU"
        raise DeviceError(f"{link.name} has no OpenCL device", "its drivers offer none", fix)
    return infos


@contextmanager
def machine_of(device: DeviceInfo) -> Iterator[Machine]:
    """Context manager that opens the machine of a device."""
    machine = acquire_machine(device)
    try:
        yield machine
    finally:
        release_machine(device)


def acquire_machine(device: DeviceInfo) -> Machine:
    """Open the machine of a device, until it is released."""
    api, _, host = device.remote.partition(":")
    machine: Machine = MACHINES.acquire(device.remote, lambda: Machine(_link(api, host)))
    return machine


def release_machine(device: DeviceInfo) -> None:
    MACHINES.release(device.remote)


def _link(api: str, host: str) -> Link:
    if api == "adb":
        return find_phone(host)
    if not host or host.startswith("-"):
        raise InputError(
            f"'{host}' is not a host", "ssh expects a name or user@name", "name a machine"
        )
    return SshLink(host)


def _device(row: dict[str, Any], remote: str) -> DeviceInfo:
    answer = CheckedAnswer(row, remote)
    texts: dict[str, Any] = {name: answer.text(name) for name in _TEXTS}
    if texts["kind"] not in KINDS:
        raise answer.refuse("kind", f"one of {', '.join(KINDS)}")
    claims = claims_of(
        f"{texts['name']} {texts['vendor']}",
        texts["platform"],
        texts["kind"],
        answer.texts("extensions"),
        answer.whole("image_texels", 0, 1 << 60),
        answer.flag("multiplies_bytes"),
    )
    facts: dict[str, Any] = {name: answer.whole(name, *limits) for name, limits in _NUMBERS.items()}
    return DeviceInfo(
        **texts,
        **facts,
        unified_memory=answer.flag("unified_memory"),
        claims=claims,
        ordinal=answer.whole("device", 0, 1 << 16),
        remote=remote,
    )
