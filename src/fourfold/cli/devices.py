"""List the OpenCL devices of this machine."""

from __future__ import annotations

from dataclasses import asdict

import click

import fourfold
from fourfold.cli._options import json_option
from fourfold.cli._show import byte_count, show_json, show_table
from fourfold.errors import DeviceError
from fourfold.players import backend_of

COLUMNS = (
    ">",
    "device",
    "kind",
    "platform",
    "driver",
    ">units",
    ">memory",
    "half",
    "sub-groups",
    ">images",
)


@click.command(help=__doc__)
@json_option
def command(as_json: bool) -> None:
    found = [backend_of(device).probe_quickly(device) for device in fourfold.devices()]
    if not found:
        raise DeviceError(
            "this machine has no OpenCL device",
            "no OpenCL platform is installed, or none has a device",
            "install the GPU's driver, or pip install 'fourfold[cpu]' to run on the processor",
        )
    if as_json:
        show_json({"devices": [asdict(device) for device in found]})
        return
    rows = [
        (
            device.index,
            device.name,
            device.kind,
            device.platform,
            device.driver,
            device.compute_units,
            byte_count(device.memory),
            "yes" if device.half_arithmetic else "no",
            device.subgroups or "no",
            device.image_texels or "no",
        )
        for device in found
    ]
    show_table("OpenCL devices (choose one by number or by part of its name)", COLUMNS, rows)
