"""What went wrong with something kept, in the log: one line, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fourfold.lazy import lazy_import

if TYPE_CHECKING:
    import logging
else:
    logging = lazy_import("logging")

_said: dict[str, object] = {}  # what was said, and by which call


def log_once(line: str, about: str = "") -> None:
    """One line in the log, once a process for what it is about."""
    this_call = object()
    if _said.setdefault(about or line, this_call) is this_call:  # without a lock: see forks
        logging.getLogger("fourfold").warning("%s", line)
