"""Measures HTML reports: the time to create one, its size, and the time until Chromium shows it.

MODELS are files or names. The default is MobileNet v2 and ResNet-50 with random weights. Each page
is opened in a new tab, and timed by its own clock from navigation until it is drawn.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import click
from networks import network_file
from rich.console import Console
from rich.table import Table
from setting import ROOT, WORK, commit, write_json

sys.path.insert(0, str(ROOT / "tests"))

from browser import MISSING, Browser, browser_path, open_browser

import fourfold

MODELS = ("mobilenet_v2", "resnet50")
DRAWN = "performance.getEntriesByName('drawn')[0]?.startTime ?? 0"  # milliseconds


def make_report(model: Path, page: Path, device: str | None) -> dict[str, Any]:
    """Create the page of a model, and return its time and size."""
    with fourfold.Session(model, device) as session:
        began = time.perf_counter()
        report = session.report(seconds=1.0)
        took = time.perf_counter() - began
    report.save(page)
    record = report.record
    return {
        "model": model.name,
        "device": record.subject.device,
        "nodes": len(record.nodes),
        "kernels": len(record.kernels),
        "made_in": took,
        "bytes": page.stat().st_size,
    }


def time_opening(browser: Browser, page: Path) -> float:
    """Return the seconds from navigation until the whole page is drawn."""
    tab = browser.page("about:blank", 1200, 900)
    tab.call("Page.navigate", url=page.as_uri())
    took = float(tab.wait_for(DRAWN))
    tab.close()
    return took / 1e3


@click.command(help=__doc__)
@click.argument("models", nargs=-1)
@click.option("--device", help="auto, an index, or part of a device's name.")
@click.option("--runs", default=9, show_default=True, help="Times that each page is opened.")
@click.option("--output", type=click.Path(path_type=Path), help="Write the results as JSON.")
def main(models: tuple[str, ...], device: str | None, runs: int, output: Path | None) -> None:
    if browser_path() is None:
        raise click.ClickException(MISSING)
    WORK.mkdir(parents=True, exist_ok=True)
    rows = []
    with open_browser() as browser:
        for name in models or MODELS:
            model = Path(name) if Path(name).exists() else network_file(name, WORK)
            page = WORK / f"{model.stem}-report.html"
            row = make_report(model, page, device)
            times = [time_opening(browser, page) for _ in range(runs)]
            rows.append({**row, "opened_in": median(times), "slowest": max(times)})
    show(rows)
    if output is not None:
        write_json(output, {"commit": commit(), "reports": rows})


def show(rows: list[dict[str, Any]]) -> None:
    columns = ("model", "nodes", "kernels", "made in s", "page KiB", "opened in ms", "slowest ms")
    table = Table(*columns)
    for row in rows:
        table.add_row(
            row["model"],
            str(row["nodes"]),
            str(row["kernels"]),
            f"{row['made_in']:.1f}",
            f"{row['bytes'] / 1024:.0f}",
            f"{row['opened_in'] * 1e3:.0f}",
            f"{row['slowest'] * 1e3:.0f}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
