"""What a driver answered in the middle of something, as an error with a way out."""

from __future__ import annotations

from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.forks import check_not_lost
from fourfold.players.cuda import binding as cu
from fourfold.players.cuda.devices import drop_context


class Explaining:
    """Turns what the driver answers while something is done into a DeviceError. A generator would
    take longer, and every run comes by here.
    """

    def __init__(self, doing: str, info: DeviceInfo, context: cu.Context, needed: int = 0) -> None:
        """`needed` bytes were asked for in all."""
        self._doing, self._info, self._context, self._needed = doing, info, context, needed

    def __enter__(self) -> None:
        """Nothing is to be done before."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, cu.Error | MemoryError):
            raise self._explained(error) from error

    def _explained(self, error: cu.Error | MemoryError) -> DeviceError:
        doing, info = self._doing, self._info
        check_not_lost(cu.API)
        if isinstance(error, MemoryError) or error.out_of_memory:
            return DeviceError(
                f"out of memory while {doing}",
                f"the plan needs {self._needed} bytes; {info.name} has {info.memory}",
                "use precision='mixed', a smaller batch, or close other sessions",
            )
        if error.lost:
            return _lost(doing, info, self._context, error)
        fix = "try again; if it stays, try another device or driver"
        return DeviceError(f"the device failed while {doing}", str(error), fix)


class Working(Explaining):
    """The same with a context that is current meanwhile."""

    def __enter__(self) -> None:
        try:
            self._context.push()
        except cu.Error as error:
            raise self._explained(error) from error

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self._context.pop()
        except cu.Error as failure:
            error = error or failure
        super().__exit__(kind, error, trace)


def _lost(doing: str, info: DeviceInfo, context: cu.Context, error: cu.Error) -> DeviceError:
    """Nothing works any more in a context, which may be that of other libraries, too."""
    fix = "close the sessions that are open on it, and make a new Session; if that fails, too, "
    why = f"{error}, and nothing works in its context any more"
    if not drop_context(info, context):
        why, fix = f"{why}, which other libraries of the process use, too", ""
    return DeviceError(f"the device was lost while {doing}", why, f"{fix}start the process again")
