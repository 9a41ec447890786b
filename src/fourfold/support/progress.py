"""Progress of long operations: reported to a callback, or shown as a progress bar.

Notebooks use IPython's display, which needs no widgets; terminals use rich. Nothing is shown if
standard error is not a terminal.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from fourfold.support.display import escape_html, visible
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from rich import console as consoles
    from rich import progress as bars
else:
    consoles, bars = lazy_import("rich.console"), lazy_import("rich.progress")
notebooks: Any = lazy_import("IPython.display")

Progress = Callable[[int, int, str, float], None]  # done, total, description, seconds left
ProgressOption = Progress | bool  # True shows a bar
DELAY = 0.5  # seconds until a bar of `late_progress` appears
PAUSE = 0.1  # seconds between two updates of a bar in a notebook


@contextmanager
def followed(option: ProgressOption | None, title: str) -> Iterator[Progress | None]:
    """Yield the function to report the progress of the work inside to; None if it is not shown."""
    if not isinstance(option, bool):
        yield option
    elif option and _in_notebook():
        with _notebook_bar(title) as report:
            yield report
    elif option and sys.stderr is not None and sys.stderr.isatty():
        with _terminal_bar(title) as report:
            yield report
    else:
        yield None


@contextmanager
def late_progress(title: str, delay_s: float = DELAY) -> Iterator[Progress | None]:
    """Yield the function to report the progress of the work inside to. A bar appears on a terminal
    if the work takes longer than `delay_s`. None if standard error is not a terminal.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    bar = _LateBar(title)
    timer = threading.Timer(delay_s, bar.show)
    timer.daemon = True
    timer.start()
    try:
        yield bar.report
    finally:
        timer.cancel()
        bar.close()


class _LateBar:
    """Progress bar that stays hidden until another thread shows it."""

    def __init__(self, title: str) -> None:
        self._title, self._lock, self._bar = title, threading.Lock(), ExitStack()
        self._update: Progress | None = None
        self._state: tuple[int, int, str, float] | None = None
        self._closed = False

    def report(self, done: int, total: int, what: str, left: float) -> None:
        with self._lock:
            self._state = (done, total, what, left)
            if self._update is not None:
                self._update(*self._state)

    def show(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._update = self._bar.enter_context(_terminal_bar(self._title))
            if self._state is not None:
                self._update(*self._state)

    def close(self) -> None:
        with self._lock:
            self._closed, self._update = True, None
            self._bar.close()


def left_text(seconds: float) -> str:
    """Format the remaining time as 'about 2:05 left'; '' if unknown."""
    minutes, seconds_left = divmod(round(seconds), 60)
    return f"about {minutes}:{seconds_left:02} left" if seconds >= 1 else ""


def _in_notebook() -> bool:
    """Return True if a Jupyter kernel runs this process."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


class NotebookBar:
    """Progress bar in a notebook; its display is updated as work progresses."""

    def __init__(self, title: str) -> None:
        self._title, self._began, self._shown = title, time.monotonic(), 0.0
        self._done, self._total, self._what, self._left = 0, 0, "", 0.0
        self._picture = notebooks.display(self, display_id=True)

    def report(self, done: int, total: int, what: str, left: float) -> None:
        self._done, self._total, self._what, self._left = done, total, what, left
        if time.monotonic() - self._shown >= PAUSE:
            self._show()

    def finish(self) -> None:
        self._done = self._total = max(self._total, 1)
        self.end("done in")

    def end(self, outcome: str) -> None:
        """Show the final state, which remains visible."""
        took = f"{outcome} {time.monotonic() - self._began:.1f} s"
        self._total, self._what, self._left = max(self._total, 1), took, 0.0
        self._show()

    def _show(self) -> None:
        self._shown = time.monotonic()
        self._picture.update(self)

    def __repr__(self) -> str:
        count = f"{self._done}/{self._total}" if self._total else ""
        return visible(self._text(count))

    def _text(self, count: str = "") -> str:
        words = (self._title, count, self._what, left_text(self._left))
        return " ".join(word for word in words if word)

    def _repr_html_(self) -> str:
        attributes = f' value="{self._done}" max="{self._total}"' if self._total else ""
        return f"<div><progress{attributes}></progress> {escape_html(self._text())}</div>"


@contextmanager
def _notebook_bar(title: str) -> Iterator[Progress]:
    bar = NotebookBar(title)
    try:
        yield bar.report
    except BaseException:  # also for Ctrl-C: an abandoned bar must not look active
        bar.end("stopped after")
        raise
    bar.finish()


@contextmanager
def _terminal_bar(title: str) -> Iterator[Progress]:
    text = partial(bars.TextColumn, markup=False)
    console = consoles.Console(stderr=True)
    with bars.Progress(
        text("{task.description}"),
        bars.BarColumn(),
        bars.TimeElapsedColumn(),
        text("{task.fields[left]}"),
        console=console,
        transient=True,
    ) as bar:
        task = bar.add_task(visible(title), total=None, left="")

        def report(done: int, total: int, what: str, left: float) -> None:
            words = visible(f"{title} {what}".strip())
            bar.update(task, completed=done, total=total, description=words, left=left_text(left))

        yield report
