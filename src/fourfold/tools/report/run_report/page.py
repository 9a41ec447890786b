"""The HTML page of a report: one file with style, scripts and data, which needs no network.

Data are compressed and base64-encoded, so that no text of a model can be taken for markup.
"""

from __future__ import annotations

import base64
import json
import zlib
from functools import cache
from importlib.resources import files
from string import Template

from fourfold.support.display import escape_html, visible_data
from fourfold.tools.report.run_report.record import RunRecord
from fourfold.tools.report.run_report.record_file import record_as_data

# Scripts are joined into one module in this order; each may use those before it.
SCRIPTS = (
    "format.js",
    "colors.js",
    "details.js",
    "graph.js",
    "timeline.js",
    "kernels.js",
    "roofline.js",
    "memory.js",
    "sections.js",
    "compare.js",
    "main.js",
)
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def make_report_page(record: RunRecord, before: RunRecord | None = None) -> str:
    """Return a page that shows one run, or two next to each other."""
    subject = record.subject
    records = {"run": record_as_data(record), "before": before and record_as_data(before)}
    data = visible_data(records)
    return _template("page.html").substitute(
        title=escape_html(f"{subject.model} on {subject.device}"),
        policy=POLICY,
        style=_text("page.css"),
        script="\n".join(_text(name) for name in SCRIPTS),
        data=_packed(json.dumps(data, ensure_ascii=False, separators=(",", ":"))),
    )


def _packed(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode("ascii")


@cache
def _text(name: str) -> str:
    path = files(__package__) / "template" / name
    return path.read_text(encoding="utf-8")


def _template(name: str) -> Template:
    return Template(_text(name))
