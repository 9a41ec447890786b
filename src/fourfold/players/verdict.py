"""Interpret a device's self-test: as text, as errors for plans, and as log messages."""

from __future__ import annotations

from fourfold.device import LONG_LOOPS, MOST_ROUNDS, UNPROMISED, DeviceInfo
from fourfold.errors import DeviceError
from fourfold.log import Log

log = Log("players")

# Required by all plans, whatever their precision.
_ALWAYS = ("floats", "bytes")
_NAMES = {name: name.replace("_", " ") for name in UNPROMISED}


def describe_verdict(device: DeviceInfo) -> str:
    """Describe in a few words what is wrong, or for a CPU which optional features are missing."""
    if not device.knows("self_test"):
        return "unknown: the self-test did not finish"
    if device.self_test:
        return f"wrong: {device.self_test}"
    probed = [name for name in UNPROMISED if device.is_cpu and device.knows(name)]
    without = [_NAMES[name] for name in probed if not getattr(device, name)]
    return f"right, without {' and '.join(without)}" if without else "right"


def check_verdict(device: DeviceInfo, precision: str, loop_rounds: int = 0) -> None:
    """Raise a DeviceError if results of a plan would be wrong; log a warning about workarounds.

    `loop_rounds` is the plan's requirement of that name.
    """
    wrong = device.self_test.split(", ") if device.self_test else ()
    refused = [name for name in wrong if name in _ALWAYS]
    if "branches" in wrong:
        raise DeviceError(
            f"{device.name} computes wrong results",
            f"a self-test kernel with many branches in a loop gives wrong results, as kernels of "
            f"models would (driver {device.driver})",
            "update its driver, or choose another device ('fourfold devices' lists them)",
        )
    if refused:
        raise DeviceError(
            f"{device.name} computes wrong results",
            f"self-test kernels for {' and '.join(refused)} do not build or give wrong results, "
            f"even with plain copies (driver {device.driver})",
            "update its driver, or choose another device ('fourfold devices' lists them)",
        )
    if "halves" in wrong and precision != "fp32":
        raise DeviceError(
            f"{device.name} stores wrong fp16 values",
            f"a self-test with fp16 storage gave wrong results (driver {device.driver})",
            "use precision='fp32', or update its driver",
        )
    if LONG_LOOPS in wrong:
        _check_loops(device, loop_rounds)
    if "staging" in wrong:
        what = "copies through pinned host memory gave wrong results in a self-test"
        log.warn_once(f"{device.name}: {what}; arrays are copied by the driver instead")


def _check_loops(device: DeviceInfo, loop_rounds: int) -> None:
    what = "a self-test kernel with a long loop stops before its end"
    if loop_rounds:
        raise DeviceError(
            f"{device.name} cannot run this model",
            f"{what} (driver {device.driver}): after {MOST_ROUNDS} iterations, as in lavapipe; "
            f"work-items of this model need {loop_rounds}",
            "update its driver, or choose another device ('fourfold devices' lists them)",
        )
    log.warn_once(f"{device.name}: {what}; models with longer loops are rejected")
