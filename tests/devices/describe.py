"""The OpenCL devices that a process sees, as JSON: asked in a process of its own."""

from __future__ import annotations

import json
import sys

from fourfold.errors import DeviceError
from fourfold.players.opencl.devices import devices


def main() -> None:
    try:
        found = [
            {"address": one.address, "device": one.name, "driver": one.driver} for one in devices()
        ]
    except DeviceError:
        found = []
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
