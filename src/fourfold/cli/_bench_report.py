"""How measured speeds are shown: contestants of one model, or several models, in a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from fourfold.cli._profile import show_profile
from fourfold.cli._show import byte_count, duration, show_line, show_table
from fourfold.support.display import count_text

OURS = "fourfold"


def show_report(report: Mapping[str, Any]) -> None:
    """All that was told of one model."""
    streams = f", {report['streams']} streams" if report["streams"] > 1 else ""
    title = f"{report['title']} on {report['device']}, {report['precision']}{streams}"
    rows = [
        (
            name,
            *(duration(found[key]) for key in ("median", "min", "p90", "p99")),
            found["runs"],
            _rate(report["throughput"][name]),
        )
        for name, found in report["seconds"].items()
    ]
    show_table(title, ("", ">median", ">min", ">p90", ">p99", ">runs", ">frames/s"), rows)
    for name, ratio in report["ratios"].items():
        show_line(f"{OURS} takes {ratio:.2f}× the time of {name}")
    if report["parts"]:
        shown = (f"{name} {duration(took)}" for name, took in report["parts"].items())
        show_line(f"the shortest run by its parts: {', '.join(shown)}")
    stages = ", ".join(f"{name} {duration(took)}" for name, took in report["start"].items())
    show_line(f"start: {stages}")
    launches = count_text(report["launches"], "launch", "launches")
    show_line(f"{launches}, {byte_count(report['arena'])} of memory for values")
    if report["kernels"]:
        click.echo()
        show_profile(report)


def show_models(reports: Sequence[Mapping[str, Any]]) -> None:
    """A table with a row a model, and what is the same for all of them above it."""
    if not reports:
        return
    first = reports[0]
    streams = f", {first['streams']} streams" if first["streams"] > 1 else ""
    beside = any(one["compared"] for one in reports)
    rows = [
        (
            one["title"],
            duration(one["seconds"][OURS]["median"]),
            _rate(one["throughput"][OURS]),
            *(_beside(one) if beside else ()),
        )
        for one in reports
    ]
    columns = ("model", ">median", ">frames/s")
    more = ("CPU runtime", ">its median", ">ratio") if beside else ()
    show_table(f"{first['device']}, {first['precision']}{streams}", (*columns, *more), rows)
    if beside:
        show_line(f"with a ratio below 1 {OURS} takes less time than the CPU runtime")


def _beside(report: Mapping[str, Any]) -> tuple[str, str, str]:
    """The runtime that a model was measured beside; a format has one at most."""
    if not report["compared"]:
        return "-", "-", "-"
    name = report["rival"]
    took = duration(report["seconds"][name]["median"])
    return name.removesuffix(" CPU"), took, f"{report['ratio']:.2f}×"


def _rate(rate: float) -> str:
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.1f}" if rate >= 10 else f"{rate:.2f}"
