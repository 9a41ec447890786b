"""How many cores of a processor a device uses."""

from __future__ import annotations

from fourfold.device import DeviceInfo
from fourfold.log import Log
from fourfold.players.registry import backend_of

log = Log("players")


def with_threads(device: DeviceInfo, threads: int | None) -> DeviceInfo:
    """The same device on no more than so many cores, where it is a processor; None stands for all.
    Where its driver cannot be told so, that is said in the log.
    """
    if threads is None or not device.is_cpu or threads >= device.compute_units:
        return device
    found = backend_of(device).with_threads(device, threads)
    if found is None:
        takes = f"{device} takes all {device.compute_units} cores, for its driver cannot part it"
        log.warn_once(
            f"{takes}: set FOURFOLD_THREADS={threads} before the start, which PoCL is told"
        )
        return device
    return found
