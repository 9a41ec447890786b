"""What a driver answered in the middle of something, as an error with a way out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.forks import check_not_lost
from fourfold.players.cuda import binding as cu


@contextmanager
def explained(doing: str, info: DeviceInfo, needed: int = 0) -> Iterator[None]:
    """Turns what the driver answers into a DeviceError; `needed` bytes were asked for in all."""
    try:
        yield
    except (cu.Error, MemoryError) as error:
        check_not_lost(cu.API)
        if isinstance(error, MemoryError) or error.out_of_memory:
            raise DeviceError(
                f"out of memory while {doing}",
                f"the plan needs {needed} bytes; {info.name} has {info.memory}",
                "use precision='mixed', a smaller batch, or close other sessions",
            ) from error
        fix = "try again; if it stays, try another device or driver"
        if error.lost:
            fix = "start the process again: CUDA gives nothing more to this one"
        raise DeviceError(f"the device failed while {doing}", str(error), fix) from error
