"""What was already made is given back where making the rest of it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def cleanup_on_error(release: Callable[[], object]) -> Iterator[None]:
    """Call `release` if the block does not come to its end; what ended it goes on.

    That may be Ctrl-C or the end of the process as well as an error: memory of a device, and
    processes on another machine, are held in every case, and nobody else knows of them.
    """
    try:
        yield
    except BaseException:
        release()
        raise
