"""Benchmark results as tables: the contestants of one model, or several models."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fourfold.cli._profile import show_profile
from fourfold.cli._show import byte_count, duration, echo, show_line, show_table
from fourfold.support.display import count_text

OURS = "fourfold"
# Units of sums, by the total in seconds below which they are used: a factor and decimals.
_SUM_UNITS = ((1e-3, "µs", 1e6, 1), (0.1, "ms", 1e3, 3), (10, "ms", 1e3, 1), (math.inf, "s", 1, 3))


def show_report(report: Mapping[str, Any]) -> None:
    """Print the benchmark of one model."""
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
        show_line(f"parts of a run, measured separately: {sum_text(report['parts'])}")
    show_line(f"start: {sum_text(report['start'])}")
    launches = count_text(report["launches"], "launch", "launches")
    show_line(f"{launches}, {byte_count(report['arena'])} of memory for values")
    if report["kernels"]:
        echo()
        show_profile(report)


def sum_text(seconds: Mapping[str, float]) -> str:
    """Return parts and their 'total' as a sum in one unit, as in 'read 1.2 + build 3.4 = 4.6 ms'.
    The rounded numbers add up: parts that lose most by rounding down are rounded up.
    """
    total = seconds["total"]
    parts = {name: took for name, took in seconds.items() if name != "total"}
    _, unit, scale, decimals = next(one for one in _SUM_UNITS if total < one[0])
    step = 10.0**-decimals / scale  # seconds of the last digit
    counts = {name: int(took / step) for name, took in parts.items()}
    missing = round(sum(parts.values()) / step) - sum(counts.values())
    by_loss = sorted(parts, key=lambda name: counts[name] - parts[name] / step)
    for name in by_loss[:missing]:
        counts[name] += 1
    texts = [f"{name} {count * step * scale:.{decimals}f}" for name, count in counts.items()]
    whole = sum(counts.values()) * step * scale
    return f"{' + '.join(texts)} = {whole:.{decimals}f} {unit}"


def show_models(reports: Sequence[Mapping[str, Any]]) -> None:
    """Print a table with a row for each model, below the device and the precision."""
    if not reports:
        return
    first = reports[0]
    streams = f", {first['streams']} streams" if first["streams"] > 1 else ""
    compared = any(one["compared"] for one in reports)
    rows = [
        (
            one["title"],
            duration(one["seconds"][OURS]["median"]),
            _rate(one["throughput"][OURS]),
            *(_runtime_cells(one) if compared else ()),
        )
        for one in reports
    ]
    columns = ("model", ">median", ">frames/s")
    more = ("CPU runtime", ">its median", ">ratio") if compared else ()
    show_table(f"{first['device']}, {first['precision']}{streams}", (*columns, *more), rows)
    if compared:
        show_line(f"a ratio below 1 means that {OURS} is faster than the CPU runtime")


def _runtime_cells(report: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the CPU runtime that a model was compared with, its median time and the ratio."""
    if not report["compared"]:
        return "-", "-", "-"
    name = report["rival"]
    took = duration(report["seconds"][name]["median"])
    return name.removesuffix(" CPU"), took, f"{report['ratio']:.2f}×"


def _rate(rate: float) -> str:
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.1f}" if rate >= 10 else f"{rate:.2f}"
