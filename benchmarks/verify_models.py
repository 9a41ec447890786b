"""Runs `fourfold verify` on all models of a folder, in several precisions.

Each run is a new process. A row has the verdict of each precision: 'right' if verify exits with 0,
else that of the output with the largest error; 'too slow' after the time limit. The exit status is
1 if anything is not right.

python benchmarks/verify_models.py --device cuda:0 --precisions fp32,mixed,fp16 --jobs 8
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from setting import SHARED, describe_setting, write_json

from fourfold.backends import find_device
from fourfold.tools.report.layers import ROUNDED
from fourfold.tools.report.verification import FINE

FOLDER = SHARED / "models" / "tflite"
KINDS = (".tflite", ".onnx")
PRECISIONS = ("fp32", "mixed", "fp16")
COMMAND = "from fourfold.cli import main; main()"


@dataclass(frozen=True)
class Judgement:
    """The verdict of `fourfold verify` on one model in one precision."""

    model: str
    precision: str
    verdict: str
    error: float | None = None  # relative to the output's range

    @property
    def is_right(self) -> bool:
        return self.verdict == "right"

    def __str__(self) -> str:
        return self.verdict if self.error is None else f"{self.verdict}, {self.error:.1e}"


def judge(model: Path, precision: str, device: str, seconds: float) -> Judgement:
    words = ["verify", str(model), "--json", "--precision", precision, "--device", device]
    command = [sys.executable, "-c", COMMAND, *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return Judgement(model.stem, precision, "too slow")
    if done.returncode < 0:
        return Judgement(model.stem, precision, f"crashed by signal {-done.returncode}")
    if done.returncode == 0:
        return Judgement(model.stem, precision, "right")
    return Judgement(model.stem, precision, *read_report(done.stdout, done.stderr))


def read_report(text: str, said: str) -> tuple[str, float | None]:
    """Return verdict and error from the JSON of verify, or its last message without JSON."""
    try:
        report = json.loads(text)
    except ValueError:
        return (said.strip().splitlines() or ["no output"])[-1], None
    return (report["error"]["what"], None) if "error" in report else worst_output(report)


def worst_output(report: Mapping[str, Any]) -> tuple[str, float | None]:
    """Return verdict and error of the wrong output with the largest error."""
    outputs = [output for sample in report["samples"].values() for output in sample["outputs"]]
    wrong = [
        (output["verdict"], output["difference"]["largest"])
        for output in outputs
        if output["verdict"] not in FINE and not output["verdict"].startswith(ROUNDED)
    ]
    return max(wrong, key=lambda one: one[1], default=("a layer is wrong", None))


def judge_all(
    models: Sequence[Path], precisions: Sequence[str], device: str, jobs: int, seconds: float
) -> list[Judgement]:
    """Return all verdicts in the order of the models; prints each that is not right."""
    pairs = [(model, precision) for model in models for precision in precisions]
    judgements = []
    with ThreadPoolExecutor(jobs) as pool:
        for one in pool.map(lambda pair: judge(*pair, device, seconds), pairs):
            judgements.append(one)
            if not one.is_right:
                click.echo(f"{one.model} in {one.precision}: {one}", err=True)
    return judgements


@click.command(help=__doc__)
@click.argument("models", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--device", default="auto", show_default=True)
@click.option("--precisions", default=",".join(PRECISIONS), show_default=True)
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, show_default=True)
@click.option("--seconds", type=float, default=600.0, show_default=True, help="Time limit per run.")
@click.option(
    "--json", "output", type=click.Path(path_type=Path), help="Write the results to this JSON file."
)
def main(
    models: tuple[Path, ...],
    device: str,
    precisions: str,
    jobs: int,
    seconds: float,
    output: Path | None,
) -> None:
    info = find_device(device)
    every = models or sorted(path for path in FOLDER.glob("*") if path.suffix in KINDS)
    if not every:
        raise click.ClickException(f"no models were found in {FOLDER}; pass some")
    names = precisions.split(",")
    judgements = judge_all(every, names, device, jobs, seconds)
    table = Table("model", *names, safe_box=True)
    for at in range(0, len(judgements), len(names)):
        row = judgements[at : at + len(names)]
        table.add_row(row[0].model, *map(str, row))
    Console().print(table)
    for precision in names:
        right = sum(one.is_right for one in judgements if one.precision == precision)
        click.echo(f"{precision}: {right} of {len(every)} are right on {info.name}")
    if output is not None:
        write_json(
            output,
            {"setting": describe_setting(info), "judgements": [asdict(one) for one in judgements]},
        )
    if not all(one.is_right for one in judgements):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
