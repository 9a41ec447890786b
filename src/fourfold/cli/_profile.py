"""How commands show where the time of a run goes: its kernels, as launches or as stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fourfold.cli._show import duration, node_name, show_line, show_table
from fourfold.runtime.profile import Profile

LEAST_COST = 5e-4  # of a launch, below which it is nothing
_FORMS = {
    "launches": "as they are launched",
    "stages": "stages of the one launch that is played",
    "list": "launched one by one: another plan than the one launch that is played",
}


def profile_data(profile: Profile) -> dict[str, Any]:
    """A profile for a report: kernels, those that take longest first, and how they were timed."""
    kernels = [asdict(one) for one in sorted(profile, key=lambda one: -one.seconds)]
    how = {"form": profile.form, "clock": profile.clock or None, "clock_cost": profile.clock_cost}
    return {"kernels": kernels, "timed": how | {"launch": profile.launch_seconds}}


def show_profile(report: Mapping[str, Any]) -> None:
    """The kernels of a report; stages in the order in which they ran."""
    kernels, timed = report["kernels"], report["timed"]
    total = sum(row["seconds"] for row in kernels) or 1.0
    title = f"kernels, {duration(total)} in all, {_FORMS[timed['form']]}"
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
        show_line(f"times are by {timed['clock']}, which {_cost(timed)}")


def _cost(timed: Mapping[str, Any]) -> str:
    launch = f"the {duration(timed['launch'])} of the launch"
    if timed["clock_cost"] < LEAST_COST:
        return f"adds less to {launch} than could be measured"
    return f"adds {timed['clock_cost']:.1%} to {launch}"
