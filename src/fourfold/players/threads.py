"""Limit the number of CPU cores that a device uses."""

from __future__ import annotations

from fourfold.device import DeviceInfo
from fourfold.log import Log
from fourfold.players.registry import backend_of

log = Log("players")


def with_threads(device: DeviceInfo, threads: int | None) -> DeviceInfo:
    """Return the device limited to this many cores if it is a CPU; None means all cores.

    Logs a warning if the driver cannot limit them.
    """
    if threads is None or not device.is_cpu or threads >= device.compute_units:
        return device
    limited = backend_of(device).with_threads(device, threads)
    if limited is None:
        usage = f"{device} uses all {device.compute_units} cores: its driver cannot limit them"
        log.warn_once(
            f"{usage}; for PoCL, set FOURFOLD_THREADS={threads} before starting the process"
        )
        return device
    return limited
