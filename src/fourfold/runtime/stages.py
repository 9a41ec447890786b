"""Progress reports for the stages of opening a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fourfold.runtime.request import Request
from fourfold.support.progress import Progress, ProgressOption, followed

R = TypeVar("R")
# A start from the store or from a prepared file skips most of these.
STAGES: tuple[str, ...] = ("device", "open", "imports", "read", "place")
STAGES += ("rewrite", "probe", "lower", "keep", "build")


def open_with_progress(opens: Callable[[], R], request: Request, option: ProgressOption) -> R:
    """Open a model, report each stage, and return what was opened. The remaining time is
    unknown.
    """
    with followed(option, f"opening {request.title}:") as report:
        if report is not None:
            request.timings.listener = _listener(report)
        try:
            opened = opens()
        finally:
            request.timings.listener = None
        if report is not None:
            report(len(STAGES), len(STAGES), "", 0.0)
    return opened


def _listener(report: Progress) -> Callable[[str], None]:
    def begins(stage: str) -> None:
        done = STAGES.index(stage) if stage in STAGES else 0
        report(done, len(STAGES), stage, 0.0)

    return begins
