"""The tables of start.py: where the time of each start goes, and devices beside each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from peers import TITLES
from rich.table import Table

PARTS = ("python", "imports", "device", "open", "make", "build", "upload", "run")
BESIDE = ("first", "kept", "prepared", "prepared, again")


def peer_rows(row: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """The table's rows of all peers of a model."""
    empty = ("-",) * len(PARTS)
    for name, found in row["peers"].items():
        if "missing" in found:
            yield (row["model"], f"{TITLES[name]}: {found['missing']}")
            continue
        for kind in ("first", "again"):
            middle = found[kind] if kind == "first" else found["median again"]
            shown = (f"{found[kind] * 1e3:.0f}", f"{middle * 1e3:.0f}")
            share = of_litert(row, found[kind])
            yield (row["model"], f"{TITLES[name]}, {kind}", *empty, *shown, "", "", "", "", share)


def of_litert(row: dict[str, Any], seconds: float) -> str:
    return f"{seconds / row['litert']['total']:.2f}" if row["litert"] else "-"


def table_of(rows: list[dict[str, Any]]) -> Table:
    table = Table(header_style="bold", title="milliseconds")
    shown = (*PARTS, "total", "median total", "ours", "median ours")
    columns = ("model", "start", *shown, "of first", "ours of first", "of LiteRT")
    for name in columns:
        table.add_column(name, justify="left" if name in columns[:2] else "right")
    for row in rows:
        for device, starts in ({"": row["starts"]} | row["beside"]).items():
            for kind, found in starts.items():
                cells = [f"{found[part] * 1e3:.0f}" for part in shown]
                first = starts["first"]
                cells += [f"{found[part] / first[part]:.1%}" for part in ("total", "ours")]
                table.add_row(
                    row["model"],
                    f"{device} {kind}".lstrip(),
                    *cells,
                    of_litert(row, found["total"]),
                )
        if row["litert"]:
            theirs = [f"{row['litert'][name] * 1e3:.0f}" for name in ("total", "median total")]
            table.add_row(row["model"], "LiteRT CPU", *("-" for _ in PARTS), *theirs)
        for cells in peer_rows(row):
            table.add_row(*cells)
    return table


def beside_table(rows: list[dict[str, Any]], name: str) -> Table:
    """What a device takes of others: the build of a first start, and starts as a whole."""
    table = Table(header_style="bold", title="milliseconds, the quickest of each")
    for title in ("model", "what", name, "beside", "its", "ratio", "ratio of medians"):
        table.add_column(title, justify="left" if title in ("model", "what", "beside") else "right")
    for row in rows:
        for other, found in row["beside"].items():
            own, theirs = row["starts"]["first"]["build"], found["first"]["build"]
            times = (f"{own * 1e3:.0f}", other, f"{theirs * 1e3:.0f}", f"{own / theirs:.2f}", "")
            table.add_row(row["model"], "first, build", *times)
            for kind in BESIDE:
                table.add_row(row["model"], kind, *_pair(row["starts"][kind], other, found[kind]))
    return table


def _pair(own: dict[str, float], other: str, theirs: dict[str, float]) -> tuple[str, ...]:
    ratios = (f"{own[which] / theirs[which]:.2f}" for which in ("total", "median total"))
    return (f"{own['total'] * 1e3:.0f}", other, f"{theirs['total'] * 1e3:.0f}", *ratios)
