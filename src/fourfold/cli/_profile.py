"""The kernels of a run as a table: launches, or stages of one launch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fourfold.cli._show import duration, node_name, show_line, show_table

MIN_CLOCK_COST = 5e-4  # fraction of a launch; smaller costs cannot be measured
_FORMS = {
    "launches": "as they are launched",
    "stages": "stages of the one launch that is played",
    "list": "launched one by one: another plan than the one launch that is played",
}


def show_profile(report: Mapping[str, Any]) -> None:
    """Print the kernels of a report; stages in the order in which they ran."""
    kernels, timed = report["kernels"], report["timed"]
    total = sum(row["seconds"] for row in kernels) or 1.0
    title = f"kernels, {duration(total)} in total, {_FORMS[timed['form']]}"
    inside = timed["form"] == "stages"
    if inside:
        kernels = sorted(kernels, key=lambda row: row["began"])
    waits = (">waiting",) if inside else ()
    rows = [
        (
            duration(row["seconds"]),
            f"{row['seconds'] / total:.1%}",
            *(duration(row["waiting"]) for _ in waits),
            row["kernel"],
            node_name(row["node"]),
        )
        for row in kernels
    ]
    show_table(title, (">time", ">share", *waits, "kernel", "node"), rows)
    if inside:
        show_line(f"times are measured with {timed['clock']}, which {_cost(timed)}")


def _cost(timed: Mapping[str, Any]) -> str:
    launch = f"the {duration(timed['launch'])} of the launch"
    if timed["clock_cost"] < MIN_CLOCK_COST:
        return f"adds less to {launch} than could be measured"
    return f"adds {timed['clock_cost']:.1%} to {launch}"
