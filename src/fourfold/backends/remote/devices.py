"""Devices of other machines, as their drivers describe them to the C player."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fourfold.backends.claims import claims_of
from fourfold.backends.connections import MACHINES
from fourfold.backends.discovery import rank_device
from fourfold.backends.remote.link import Link, SshLink, attached_phones, find_phone
from fourfold.backends.remote.machine import Machine
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, InputError

# Facts that the C player reports under the same names.
_REPORTED = (
    *("name", "vendor", "platform", "driver", "version", "kind", "compute_units", "memory"),
    *("max_allocation", "max_work_group", "local_memory", "alignment", "unified_memory"),
    *("language_version", "address_bits", "uuid"),
)


def reach_device(api: str, name: str) -> DeviceInfo:
    """Return a device by its machine's name, and its number there: 'SERIAL', 'SERIAL/1'."""
    host, slash, number = name.rpartition("/")
    link = _link(api, host if slash else name)
    candidates = devices_of(link)
    if not slash:
        return min(candidates, key=rank_device)
    if not number.isdecimal() or int(number) >= len(candidates):
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
    facts = {name: row[name] for name in _REPORTED}
    return DeviceInfo(**facts, claims=claims, ordinal=row["device"], remote=remote)
