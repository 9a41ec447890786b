"""Release what was already created if a later step fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def cleanup_on_error(release: Callable[[], object]) -> Iterator[None]:
    """Call `release` if the block raises, and re-raise.

    This includes KeyboardInterrupt and SystemExit: device memory and processes on another machine
    would otherwise stay allocated without an owner.
    """
    try:
        yield
    except BaseException:
        release()
        raise
