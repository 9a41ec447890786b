"""The OpenCL devices that a process sees, as JSON: asked in a process of its own."""

from __future__ import annotations

import json
import sys

from fourfold.backends import determine_facts
from fourfold.backends.opencl.devices import devices
from fourfold.backends.probing import check_verdict
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError


def describe(device: DeviceInfo) -> dict[str, str]:
    """Who it is, and why its self-test refuses it: nothing where it does not."""
    found = {"address": device.address, "device": device.name, "driver": device.driver}
    try:
        check_verdict(determine_facts(device, ["self_test"]), "fp32")
    except DeviceError as error:
        return {**found, "refused": f"refused: it {error.what.removeprefix(device.name).strip()}"}
    return {**found, "refused": ""}


def main() -> None:
    try:
        found = [describe(one) for one in devices()]
    except DeviceError:
        found = []
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
