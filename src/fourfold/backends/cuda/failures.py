"""Convert errors of the driver to errors with a cause and a fix."""

from __future__ import annotations

from fourfold.backends.cuda import binding as cu
from fourfold.backends.cuda.devices import drop_context
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.support.forks import check_not_lost


class ConvertErrors:
    """Context manager that converts driver errors to DeviceErrors.

    It is a class because it is used in every run and a generator would be slower.
    """

    def __init__(self, doing: str, info: DeviceInfo, context: cu.Context, needed: int = 0) -> None:
        """`needed` is the total number of bytes that were requested."""
        self._doing, self._info, self._context, self._needed = doing, info, context, needed

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, cu.Error | MemoryError):
            raise self._converted(error) from error

    def _converted(self, error: cu.Error | MemoryError) -> DeviceError:
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
        fix = "try again; if it persists, try another device or driver"
        return DeviceError(f"the device failed while {doing}", str(error), fix)


class ActiveContext(ConvertErrors):
    """Context manager that also makes a context current."""

    def __enter__(self) -> None:
        try:
            self._context.push()
        except cu.Error as error:
            raise self._converted(error) from error

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self._context.pop()
        except cu.Error as failure:
            error = error or failure
        super().__exit__(kind, error, trace)


def _lost(doing: str, info: DeviceInfo, context: cu.Context, error: cu.Error) -> DeviceError:
    """Explain that a context is unusable, including for other libraries that use it."""
    fix = "close the open sessions on it and create a new Session; if that fails as well, "
    why = f"{error}; its context cannot be used any more"
    if not drop_context(info, context):
        why, fix = f"{why}, and other libraries of the process hold it", ""
    return DeviceError(f"the device was lost while {doing}", why, f"{fix}restart the process")
