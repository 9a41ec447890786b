"""Devices of other machines, as their drivers describe them to the player there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, InputError
from fourfold.players.claims import claims_of
from fourfold.players.connections import MACHINES
from fourfold.players.discovery import rank_device
from fourfold.players.remote.adb import attached_phones, find_phone
from fourfold.players.remote.link import Link
from fourfold.players.remote.machine import Machine
from fourfold.players.remote.ssh import SshLink

# Facts that the player tells under the names that they have here.
_TOLD = (
    *("name", "vendor", "platform", "driver", "version", "kind", "compute_units", "memory"),
    *("max_allocation", "max_work_group", "local_memory", "alignment", "unified_memory"),
    *("language_version", "address_bits", "uuid"),
)


def reach_device(api: str, name: str) -> DeviceInfo:
    """A device by the machine's name, and its number there: 'SERIAL', 'SERIAL/1'."""
    host, slash, number = name.rpartition("/")
    link = _link(api, host if slash else name)
    found = devices_of(link)
    if not slash:
        return min(found, key=rank_device)
    if not number.isdecimal() or int(number) >= len(found):
        names = ", ".join(f"{info.address} {info.name}" for info in found)
        raise DeviceError(f"there is no device {api}:{name}", f"it has {names}", "name one of them")
    return found[int(number)]


def attached_devices() -> tuple[DeviceInfo, ...]:
    """All devices of all phones that can be used."""
    ready = [phone.serial for phone in attached_phones() if phone.state == "device"]
    return tuple(info for serial in ready for info in devices_of(find_phone(serial)))


def devices_of(link: Link) -> list[DeviceInfo]:
    """All devices of a machine, the first of its driver first."""
    with MACHINES.using(link.name, lambda: Machine(link)) as machine:
        found = [_device(row, machine.link.name) for row in machine.devices()]
    if not found:
        fix = "install the OpenCL driver of its GPU"
        raise DeviceError(f"{link.name} has no OpenCL device", "its drivers have none", fix)
    return found


@contextmanager
def machine_of(device: DeviceInfo) -> Iterator[Machine]:
    """The machine that a device is on, open for a while."""
    machine = acquire_machine(device)
    try:
        yield machine
    finally:
        release_machine(device)


def acquire_machine(device: DeviceInfo) -> Machine:
    """The machine that a device is on, open until it is released."""
    api, _, host = device.remote.partition(":")
    machine: Machine = MACHINES.acquire(device.remote, lambda: Machine(_link(api, host)))
    return machine


def release_machine(device: DeviceInfo) -> None:
    MACHINES.release(device.remote)


def _link(api: str, host: str) -> Link:
    if api == "adb":
        return find_phone(host)
    if not host or host.startswith("-"):
        raise InputError(f"'{host}' is no host", "ssh takes a name or user@name", "name a machine")
    return SshLink(host)


def _device(row: dict[str, Any], remote: str) -> DeviceInfo:
    extensions = row["extensions"]
    words = extensions.split() if isinstance(extensions, str) else extensions
    claims = claims_of(
        f"{row['name']} {row['vendor']}",
        row["platform"],
        row["kind"],
        words,
        row["image_texels"],
        bool(row["multiplies_bytes"]),
    )
    told = {name: row[name] for name in _TOLD}
    return DeviceInfo(**told, claims=claims, ordinal=row["device"], remote=remote)
