"""What a self-test of a device means: in words, for what is played there, and for the log."""

from __future__ import annotations

from fourfold.device import LONG_LOOPS, MOST_ROUNDS, UNPROMISED, DeviceInfo
from fourfold.errors import DeviceError
from fourfold.log import Log

log = Log("players")

# What all plans rest on, whatever their precision.
_ALWAYS = ("floats", "bytes")
_NAMES = {name: name.replace("_", " ") for name in UNPROMISED}


def describe_verdict(device: DeviceInfo) -> str:
    """In a few words: what is wrong, or for a CPU what it does without."""
    if not device.knows("self_test"):
        return "not known: no self-test came to an end"
    if device.self_test:
        return f"wrong: {device.self_test}"
    known = [name for name in UNPROMISED if device.is_cpu and device.knows(name)]
    without = [_NAMES[name] for name in known if not getattr(device, name)]
    return f"right, without {' and '.join(without)}" if without else "right"


def check_verdict(device: DeviceInfo, precision: str, loop_rounds: int = 0) -> None:
    """A DeviceError where results of a plan would be wrong; what is done instead is logged.

    `loop_rounds` is what the plan requires of that name.
    """
    wrong = device.self_test.split(", ") if device.self_test else ()
    refused = [name for name in wrong if name in _ALWAYS]
    if "branches" in wrong:
        raise DeviceError(
            f"{device.name} loses values",
            f"a kernel of a self-test with many branches in a loop gives wrong results, as kernels "
            f"of models would (driver {device.driver})",
            "update its driver, or choose another device: 'fourfold devices' shows all",
        )
    if refused:
        raise DeviceError(
            f"{device.name} does not compute right",
            f"kernels of a self-test that change {' and '.join(refused)} do not build or give "
            f"wrong results, though arrays are copied the plainest way (driver {device.driver})",
            "update its driver, or choose another device: 'fourfold devices' shows all",
        )
    if "halves" in wrong and precision != "fp32":
        raise DeviceError(
            f"{device.name} does not store half precision right",
            f"a self-test with halves in memory gave wrong results (driver {device.driver})",
            "use precision='fp32', or update its driver",
        )
    if LONG_LOOPS in wrong:
        _check_loops(device, loop_rounds)
    if "staging" in wrong:
        what = "copies through pinned host memory came out wrong in a self-test"
        log.warn_once(f"{device.name}: {what}; its driver copies arrays without it instead")


def _check_loops(device: DeviceInfo, loop_rounds: int) -> None:
    what = "a kernel of a self-test with a long loop stops in the middle of it"
    if loop_rounds:
        raise DeviceError(
            f"{device.name} cannot run this model",
            f"{what} (driver {device.driver}): after {MOST_ROUNDS} rounds, as lavapipe's do; "
            f"work-items of this model make {loop_rounds}",
            "update its driver, or choose another device: 'fourfold devices' shows all",
        )
    log.warn_once(f"{device.name}: {what}; models whose sums are as long are refused")
