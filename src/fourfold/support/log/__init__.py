"""Logging: `logging.getLogger("fourfold")`, with a child logger per package.

Starting a session does not import `logging`. While no other code has imported it, there can be no
handler, and a message is dropped before it is formatted. Running a model logs nothing.

show: writes messages to standard error, for commands and for FOURFOLD_LOG.
native_output: captures and logs what drivers and runtimes write themselves.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING

from fourfold.config import log_level
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    import logging

    from fourfold.support import display
    from fourfold.support.log import show
else:
    logging, show = lazy_import("logging"), lazy_import("fourfold.support.log.show")
    display = lazy_import("fourfold.support.display")

NAME = __name__.partition(".")[0]
DEBUG, INFO, WARNING = 10, 20, 30  # values of the logging module
_CALLER = 3  # stack frames from `logging` to the caller that logs
_said: dict[str, object] = {}  # messages that were logged once, and the call that logged them


@cache
def apply_log_settings() -> None:
    """Show the log if FOURFOLD_LOG is set; it is read once, when the first message is logged."""
    level = log_level()
    if level is not None:
        show.show_log_by_default(level)


class Log:
    """Logger of one package. It imports and formats nothing while there is no handler."""

    def __init__(self, package: str) -> None:
        self._name = f"{NAME}.{package}"

    def debug(self, line: str, *arguments: object) -> None:
        """Log one step of the work: a stage, a key, a probe, a build, a choice."""
        self._say(DEBUG, line, arguments)

    def info(self, line: str, *arguments: object) -> None:
        """Log what was opened or created for the caller, and how long it took."""
        self._say(INFO, line, arguments)

    def warning(self, line: str, *arguments: object) -> None:
        """Log something that works, but not as well as it could."""
        self._say(WARNING, line, arguments)

    def warn_once(self, line: str, about: str = "") -> None:
        """Log a warning once per process for each subject `about`."""
        this_call = object()
        if not self.hears(WARNING):
            return
        if _said.setdefault(about or line, this_call) is this_call:  # without a lock: see forks
            self._say(WARNING, "%s", (line,))

    def hears(self, level: int) -> bool:
        """Return True if a message of this level is handled; checked before formatting costly
        messages.
        """
        logger = self._logger()
        return logger is not None and logger.isEnabledFor(level)

    def _say(self, level: int, line: str, arguments: tuple[object, ...]) -> None:
        logger = self._logger()
        if logger is not None and logger.isEnabledFor(level):
            shown = (one if isinstance(one, int | float) else _visible(one) for one in arguments)
            logger.log(level, display.visible(line), *shown, stacklevel=_CALLER)

    def _logger(self) -> logging.Logger | None:
        apply_log_settings()
        if "logging" not in sys.modules:
            return None
        parent = logging.getLogger(NAME)
        if not parent.handlers:  # the application decides what to show
            parent.addHandler(logging.NullHandler())
        return logging.getLogger(self._name)


def _visible(argument: object) -> str:
    """Return an argument of a message as text: a name cannot pretend to be another line."""
    text: str = display.visible(str(argument))
    return text.replace("\n", "\\n") if isinstance(argument, str) else text
