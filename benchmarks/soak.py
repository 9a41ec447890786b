"""Runs sessions under load for a long time, to find leaks, deadlocks and wrong results.

Four loads: sessions opened, run and closed in sequence; one session run repeatedly; threads that
share sessions of several kinds; many sessions open at once. Every result is compared with that of
the same session without load. Memory, files, threads, and objects of Python and the driver are
counted after a warm-up and at the end.

    python benchmarks/soak.py                        # all loads, about 15 minutes
    python benchmarks/soak.py --seconds 10 --cycles 50 --runs 5000 --at-once 20
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))  # for `long_loads`
import long_loads as loads
from setting import describe_setting

import fourfold
from fourfold import backends


def table_of(outcomes: list[loads.Outcome]) -> Table:
    table = Table(
        "load", "done", "seconds", "wrong", "stuck", "errors", "memory", "objects", "left"
    )
    for one in outcomes:
        left = ", ".join(f"{count} {name}" for name, count in one.left.items()) or "nothing"
        numbers = (one.done, f"{one.seconds:.0f}", one.wrong, one.stuck, len(one.errors))
        grown = (f"{one.growth / 2**20:+.1f} MiB", f"{one.objects:+}", left)
        table.add_row(one.name, *map(str, numbers), *grown)
    return table


@click.command(help=__doc__.replace("\n\n    ", "\n\n\b\n    "))
@click.option("--device", default="auto", show_default=True)
@click.option(
    "--seconds", default=600.0, show_default=True, help="Duration of the load with threads."
)
@click.option("--threads", default=16, show_default=True)
@click.option("--sessions", default=8, show_default=True, help="Sessions that the threads share.")
@click.option("--cycles", default=1000, show_default=True, help="Cycles of open, run and close.")
@click.option("--runs", default=100_000, show_default=True, help="Runs of one session.")
@click.option("--at-once", default=200, show_default=True, help="Sessions open at once.")
@click.option("--json", "as_json", is_flag=True)
def main(
    device: str,
    seconds: float,
    threads: int,
    sessions: int,
    cycles: int,
    runs: int,
    at_once: int,
    as_json: bool,
) -> None:
    info: fourfold.DeviceInfo = backends.find_device(device)
    outcomes = [
        loads.open_run_close(info, cycles),
        loads.run_again(info, runs),
        loads.many_at_once(info, at_once),
        loads.crowd_of_threads(info, seconds, threads, sessions),
    ]
    if as_json:
        rows = [one.as_row() for one in outcomes]
        print(json.dumps({"setting": describe_setting(info), "rows": rows}, indent=2))
    else:
        Console().print(table_of(outcomes))
    for error in [error for one in outcomes for error in one.errors[:3]]:
        print(error, file=sys.stderr)
    if any(one.wrong or one.stuck or one.errors for one in outcomes):
        raise SystemExit("some loads failed")


if __name__ == "__main__":
    main()
