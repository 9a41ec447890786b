"""RunReport: the report of a run, to be saved as a page or as data, and shown in notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from fourfold.runtime.instance import ModelInstance
from fourfold.session import Session
from fourfold.support.display import shown
from fourfold.tools.report.run_report.collect import ReportOptions, collect
from fourfold.tools.report.run_report.page import make_report_page
from fourfold.tools.report.run_report.record import RunRecord
from fourfold.tools.report.run_report.record_file import record_as_data, write_record

NOTEBOOK_HEIGHT = 780  # pixels


def report_run(
    runner: Session,
    instance: ModelInstance,
    inputs: Mapping[str, np.ndarray] | None,
    **options: Any,
) -> RunReport:
    """Return the report of a session's model; `options` are those of `ReportOptions`."""
    return RunReport(collect(runner, instance, inputs, ReportOptions(**options)))


@dataclass(frozen=True)
class RunReport:
    """A report of one run, or of two next to each other if `before` is another run."""

    record: RunRecord
    before: RunRecord | None = None

    def save(self, path: str | Path) -> None:
        """Write a self-contained HTML page, or only the data if the path ends in '.json'."""
        if Path(path).suffix.lower() == ".json":
            write_record(self.record, path)
        else:
            Path(path).write_text(self.html(), encoding="utf-8")

    def json(self) -> dict[str, Any]:
        """Return the data as plain values, with the version of the format."""
        return record_as_data(self.record)

    def html(self) -> str:
        """Return the HTML page."""
        return make_report_page(self.record, self.before)

    def compared_with(self, before: RunReport) -> RunReport:
        """Return a report that shows this run next to an earlier one."""
        return RunReport(self.record, before.record)

    def _repr_html_(self) -> str:
        """Return the page in a sandboxed frame, isolated from the notebook."""
        page = escape(self.html(), quote=True)
        style = f"width:100%;height:{NOTEBOOK_HEIGHT}px;border:0"
        return f'<iframe sandbox="allow-scripts" srcdoc="{page}" style="{style}"></iframe>'

    @shown
    def __repr__(self) -> str:
        subject = self.record.subject
        kernels = len(self.record.kernels)
        return f"<RunReport of {subject.model} on {subject.device}: {kernels} kernels>"
