"""Convert errors of wgpu-native to errors with a cause and a fix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fourfold.backends.webgpu import binding as wg
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.support.forks import check_not_lost


@contextmanager
def convert_errors(doing: str, info: DeviceInfo, needed: int = 0) -> Iterator[None]:
    """Context manager that converts errors of the library to DeviceErrors. `needed` is the total
    number of requested bytes.
    """
    try:
        yield
    except (wg.Error, MemoryError) as error:
        check_not_lost(wg.API)
        if isinstance(error, MemoryError) or error.out_of_memory:
            raise DeviceError(
                f"out of memory while {doing}",
                f"the plan needs {needed} bytes, which {info.name} cannot allocate",
                "use precision='mixed', a smaller batch, or close other sessions",
            ) from error
        if error.lost:
            fix = "close the session and open a new one"
            raise DeviceError(f"{info.name} was lost while {doing}", error.message, fix) from error
        fix = "try again; if it persists, try another device or driver"
        raise DeviceError(f"the device failed while {doing}", str(error), fix) from error
