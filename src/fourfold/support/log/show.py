"""Log messages on standard error, one per line, with time and package if INFO is shown."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

NAME = __name__.partition(".")[0]


class _Lines(logging.Formatter):
    """Formats warnings as plain sentences if only they are shown, else with time and package."""

    def format(self, record: logging.LogRecord) -> str:
        message = super().format(record)
        if logging.getLogger(NAME).getEffectiveLevel() > logging.INFO:
            return message
        package = record.name.removeprefix(f"{NAME}.")
        kind = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        return f"{record.relativeCreated / 1e3:8.3f} s  {package}: {kind}{message}"


class _StandardError(logging.StreamHandler):
    """Handler that writes to the current `sys.stderr`."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


_HANDLER = _StandardError()
_HANDLER.setFormatter(_Lines())


def show_log(level: str) -> None:
    """Show messages at or above the level 'debug', 'info' or 'warning'."""
    logger = logging.getLogger(NAME)
    logger.setLevel(level.upper())
    logger.addHandler(_HANDLER)  # addHandler ignores a handler that was added before


def show_log_by_default(level: str) -> None:
    """Show messages at or above a level, unless the application's own handlers show them."""
    show_log(level)
    if logging.getLogger().handlers:
        logging.getLogger(NAME).removeHandler(_HANDLER)


@contextmanager
def shown_log(always: str = "") -> Iterator[None]:
    """Show warnings on standard error inside this context, and INFO messages of the package
    `always`; `show_log` can show more meanwhile.
    """
    loggers = [logging.getLogger(name) for name in (NAME, f"{NAME}.{always}")]
    before, had_handler = [one.level for one in loggers], _HANDLER in loggers[0].handlers
    if not had_handler:
        show_log("warning")
    loggers[1].setLevel(min(logging.INFO, loggers[0].getEffectiveLevel()))
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
        if not had_handler:
            loggers[0].removeHandler(_HANDLER)
