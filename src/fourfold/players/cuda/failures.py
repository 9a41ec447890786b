"""What a driver answered in the middle of something, as an error with a way out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.forks import check_not_lost
from fourfold.players.cuda import binding as cu
from fourfold.players.cuda.devices import drop_context


@contextmanager
def working(
    doing: str, info: DeviceInfo, context: cu.Context, needed: int = 0
) -> Iterator[cu.Context]:
    """Makes a context current, and turns what the driver answers into a DeviceError; `needed` bytes
    were asked for in all.
    """
    try:
        with context.current():
            yield context
    except (cu.Error, MemoryError) as error:
        check_not_lost(cu.API)
        if isinstance(error, MemoryError) or error.out_of_memory:
            raise DeviceError(
                f"out of memory while {doing}",
                f"the plan needs {needed} bytes; {info.name} has {info.memory}",
                "use precision='mixed', a smaller batch, or close other sessions",
            ) from error
        if error.lost:
            raise _lost(doing, info, context, error) from error
        fix = "try again; if it stays, try another device or driver"
        raise DeviceError(f"the device failed while {doing}", str(error), fix) from error


def _lost(doing: str, info: DeviceInfo, context: cu.Context, error: cu.Error) -> DeviceError:
    """Nothing works any more in a context, which may be that of other libraries, too."""
    fix = "close the sessions that are open on it, and make a new Session; if that fails, too, "
    why = f"{error}, and nothing works in its context any more"
    if not drop_context(info, context):
        why, fix = f"{why}, which other libraries of the process use, too", ""
    return DeviceError(f"the device was lost while {doing}", why, f"{fix}start the process again")
