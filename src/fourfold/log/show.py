"""The log on standard error: a line each, with the time and the room where much is shown."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

NAME = __name__.partition(".")[0]


class _Lines(logging.Formatter):
    """Warnings alone are plain sentences; a longer log says when, and which room."""

    def format(self, record: logging.LogRecord) -> str:
        message = super().format(record)
        if logging.getLogger(NAME).getEffectiveLevel() > logging.INFO:
            return message
        room = record.name.removeprefix(f"{NAME}.")
        kind = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        return f"{record.relativeCreated / 1e3:8.3f} s  {room}: {kind}{message}"


class _StandardError(logging.StreamHandler):
    """Writes to whatever standard error is at that time."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


_HANDLER = _StandardError()
_HANDLER.setFormatter(_Lines())


def show_log(level: str) -> None:
    """Show what is at least as grave as 'debug', 'info' or 'warning'."""
    logger = logging.getLogger(NAME)
    logger.setLevel(level.upper())
    logger.addHandler(_HANDLER)  # once, however often


def show_log_unless_heard(level: str) -> None:
    """The same; where the program shows logs itself, these are among them."""
    show_log(level)
    if logging.getLogger().handlers:
        logging.getLogger(NAME).removeHandler(_HANDLER)


@contextmanager
def shown_log(always: str = "") -> Iterator[None]:
    """Warnings on standard error, and of the room `always` what is at INFO, until this ends;
    `show_log` shows more meanwhile.
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
