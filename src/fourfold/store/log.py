"""What went wrong with something kept, in the log: one line, once."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from fourfold.lazy import lazy_import

if TYPE_CHECKING:
    import logging
else:
    logging = lazy_import("logging")

_said: set[str] = set()
_lock = Lock()


def log_once(line: str, about: str = "") -> None:
    """One line in the log, once a process for what it is about."""
    with _lock:
        if (about or line) in _said:
            return
        _said.add(about or line)
    logging.getLogger("fourfold").warning("%s", line)
