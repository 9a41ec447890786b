"""The log: `logging.getLogger("fourfold")`, with a child for each room that has something to say.

A start imports no `logging`. As long as nobody else has imported it either, nobody can listen, and
a line is dropped before it is made. What runs a model says nothing at all.

show: lines on standard error, for commands and for FOURFOLD_LOG.
native_output: what drivers and runtimes write by themselves, caught and logged.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING

from fourfold.config import log_level
from fourfold.lazy import lazy_import

if TYPE_CHECKING:
    import logging

    from fourfold.log import show
else:
    logging, show = lazy_import("logging"), lazy_import("fourfold.log.show")

NAME = __name__.partition(".")[0]
DEBUG, INFO, WARNING = 10, 20, 30  # as logging has them
_CALLER = 3  # frames up from `logging` to who said a line
_said: dict[str, object] = {}  # what was said once, and by which call


@cache
def follow_settings() -> None:
    """Show the log where FOURFOLD_LOG says so; looked at once, when there is a first line."""
    level = log_level()
    if level is not None:
        show.show_log_unless_heard(level)


class Log:
    """What one room says; nothing is imported, and no line made, where nobody listens."""

    def __init__(self, room: str) -> None:
        self._name = f"{NAME}.{room}"

    def debug(self, line: str, *arguments: object) -> None:
        """One step on the way: a stage, a key, a trial, a build, a choice."""
        self._say(DEBUG, line, arguments)

    def info(self, line: str, *arguments: object) -> None:
        """What was opened or made for a caller, in how long."""
        self._say(INFO, line, arguments)

    def warning(self, line: str, *arguments: object) -> None:
        """What still works, but not as well as it could."""
        self._say(WARNING, line, arguments)

    def warn_once(self, line: str, about: str = "") -> None:
        """A warning that is given once a process for what it is about."""
        this_call = object()
        if not self.hears(WARNING):
            return
        if _said.setdefault(about or line, this_call) is this_call:  # without a lock: see forks
            self._say(WARNING, "%s", (line,))

    def hears(self, level: int) -> bool:
        """Whether anybody listens: asked before a line that takes work to make."""
        logger = self._logger()
        return logger is not None and logger.isEnabledFor(level)

    def _say(self, level: int, line: str, arguments: tuple[object, ...]) -> None:
        logger = self._logger()
        if logger is not None:
            logger.log(level, line, *arguments, stacklevel=_CALLER)

    def _logger(self) -> logging.Logger | None:
        follow_settings()
        if "logging" not in sys.modules:
            return None
        parent = logging.getLogger(NAME)
        if not parent.handlers:  # who uses a library decides what is shown of it
            parent.addHandler(logging.NullHandler())
        return logging.getLogger(self._name)
