"""List the devices of this machine, with the results of short tests on them.

--device of other commands takes the number, the address (opencl:0) or part of the name. A GPU that
several APIs offer is listed once, with the preferred API. With API ('cuda', 'webgpu', 'vulkan'),
all devices of that API are listed. --adb and --ssh list the devices of phones and other machines
instead, which are chosen by their address.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click

import fourfold
from fourfold.backends import backends, describe_verdict, determine_facts, devices_of, find_device
from fourfold.backends.connections import MACHINES
from fourfold.cli._options import examples, json_option
from fourfold.cli._show import byte_count, show_json, show_table
from fourfold.config import Config
from fourfold.device import IMAGES, MEASURED, UNPROMISED, DeviceInfo, facts_for_backends
from fourfold.errors import DeviceError
from fourfold.store.store import Store, configured_store
from fourfold.support.log import Log

log = Log("cli")
COLUMNS = (
    ">number",
    "device",
    "address",
    "kind",
    "platform",
    "driver",
    ">compute units",
    ">memory",
    "half arithmetic",
    "sub-groups",
    ">largest image",
    "self-test",
)
EXAMPLES = examples("fourfold devices", "fourfold devices cuda --json")


@click.command(help=__doc__, epilog=EXAMPLES)
@click.argument("api", required=False)
@click.option("--adb", is_flag=True, help="List devices of phones attached over adb.")
@click.option(
    "--ssh",
    multiple=True,
    metavar="HOST",
    help="List the device of another machine. Repeat for more machines.",
)
@json_option
def command(api: str | None, adb: bool, ssh: tuple[str, ...], as_json: bool) -> None:
    config = Config.from_environment()
    store = configured_store(config)
    with MACHINES.held():
        offered = _elsewhere(adb, ssh) if adb or ssh else _here(api)
        devices = [_with_facts(device, store) for device in offered]
    if not devices and adb:
        what, why = "no phone is attached", "adb lists none that can be used"
        raise DeviceError(what, why, "plug one in, unlock it, and allow USB debugging")
    if not devices:
        raise DeviceError(
            "this machine has no device",
            "no OpenCL platform is installed, or none has a device",
            "install the GPU's driver, or pip install 'fourfold[cpu]' to run on the processor",
        )
    if as_json:
        show_json({"devices": [_record(device) for device in devices]})
        return
    title = "devices (choose one by number, by address, or by part of its name)"
    title = "devices (choose one by address)" if adb or ssh else title
    show_table(title, COLUMNS, [_row(device) for device in devices])


def _here(api: str | None) -> Sequence[DeviceInfo]:
    return fourfold.devices() if api is None else devices_of(api)


def _elsewhere(adb: bool, ssh: tuple[str, ...]) -> Sequence[DeviceInfo]:
    phones = backends()["adb"].devices() if adb else ()
    return [*phones, *(find_device(f"ssh:{host}") for host in ssh)]


def _with_facts(device: DeviceInfo, store: Store | None) -> DeviceInfo:
    """Return the device with the facts of the table; without them if its driver crashes."""
    try:
        return determine_facts(device, _shown_facts(device), store)
    except DeviceError as error:
        log.warning("%s", error)
        return device


def _shown_facts(device: DeviceInfo) -> tuple[str, ...]:
    """Return the facts of the table; fp16 arithmetic is tested if the driver claims it."""
    half = ("half_arithmetic",) if device.claims.get("half_arithmetic") else ()
    units = () if device.compute_units else MEASURED
    unpromised = ("forward_progress",) if device.remote else UNPROMISED
    return (*half, *units, "subgroups", *IMAGES, *facts_for_backends(device), *unpromised)


def _record(device: DeviceInfo) -> dict[str, object]:
    return {**asdict(device), "address": device.address, "verdict": describe_verdict(device)}


def _row(device: DeviceInfo) -> tuple[object, ...]:
    return (
        "-" if device.remote else device.index,
        device.name,
        ", also ".join((device.address, *device.others)),
        device.kind.upper() if device.kind in ("cpu", "gpu") else device.kind,
        device.platform,
        device.driver,
        device.units or "unknown",
        byte_count(device.memory) if device.memory else "unknown",
        "yes" if device.half_arithmetic else "no",
        device.subgroups or "no",
        f"{device.image_texels} texels" if device.image_texels else "no images",
        describe_verdict(device),
    )
