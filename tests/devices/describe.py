"""Print the OpenCL devices that a process sees, as JSON."""

from __future__ import annotations

import json
import sys

from fourfold.backends import determine_facts
from fourfold.backends.opencl.devices import devices
from fourfold.backends.probing import check_verdict
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError


def describe(device: DeviceInfo) -> dict[str, str]:
    """Return the identity of a device, and why its self-test rejects it, if it does."""
    results = {"address": device.address, "device": device.name, "driver": device.driver}
    try:
        check_verdict(determine_facts(device, ["self_test"]), "fp32")
    except DeviceError as error:
        return {**results, "refused": f"refused: it {error.what.removeprefix(device.name).strip()}"}
    return {**results, "refused": ""}


def main() -> None:
    try:
        results = [describe(one) for one in devices()]
    except DeviceError:
        results = []
    sys.stdout.write(json.dumps(results))


if __name__ == "__main__":
    main()
