"""Measures how long, and in how much memory, small hostile model files are refused or planned.

Each file is compiled in a process of its own, without a device, and must stay within 1 second for
each MB of the file plus 10 seconds, and within 1 GB beyond its tensors. CASES are some of those
that --list prints; the default is all of them.
"""

from __future__ import annotations

import cProfile
import json
import os
import pstats
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import hostile_constants
import hostile_tflite
from hostile_models import CASES
from setting import WORK, write_json

from fourfold.backends import find_target
from fourfold.backends.null import NULL_GPU
from fourfold.compiler.compile import compile_model
from fourfold.compiler.convert import make_readable
from fourfold.errors import FourfoldError
from fourfold.options import CompileOptions
from fourfold.support.timings import Timings

SECONDS, SECONDS_PER_MB = 10.0, 1.0
LIMIT_MB = 1000.0
MODULES = (hostile_constants, hostile_tflite)  # each registers its cases
UNEXPECTED = (ArithmeticError, AssertionError, LookupError, MemoryError, RuntimeError, ValueError)
GIVE_UP = 120.0  # seconds after which a file is abandoned
MAX_ADDRESS_BYTES = 12 << 30  # so that a file cannot exhaust the machine


def compile_one(path: Path, device: str, profile: bool) -> dict[str, Any]:
    """Compile a file in this process and return the outcome, the seconds and the peak memory."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESS_BYTES, MAX_ADDRESS_BYTES))
    info = NULL_GPU if device == "null" else find_target(device)
    timings = Timings()
    before = _peak_mb()
    recorder = cProfile.Profile() if profile else None
    start = time.process_time()  # other work on the machine does not count
    if recorder is not None:
        recorder.enable()
    result: dict[str, Any] = {}
    try:
        readable = make_readable(str(path), None, GIVE_UP)
        model = compile_model(readable.content, info, CompileOptions(), timings=timings)
        texts = {plan.program.text for plan in model.plans}
        result = {
            "outcome": "planned",
            "parts": len(model.parts),
            "launches": len(model.launches),
            "text_kb": sum(map(len, texts)) / 1e3,
            "device_mb": model.device_bytes / 1e6,
        }
    except FourfoldError as error:
        result = {"outcome": "refused", "message": f"{error.what}: {error.why}"[:300]}
    except UNEXPECTED as error:
        result = {"outcome": "FAILED", "message": f"{type(error).__name__}: {error}"[:300]}
    seconds = time.process_time() - start
    if recorder is not None:
        recorder.disable()
        pstats.Stats(recorder, stream=sys.stderr).sort_stats("tottime").print_stats(25)
    stages = {name: round(spent, 2) for name, spent in timings.items()}
    return {**result, "seconds": seconds, "stages": stages, "peak_mb": _peak_mb() - before}


def _peak_mb() -> float:
    """Return the peak memory of this process; getrusage counts the parent's as well."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(float(line.split()[1]) / 1e3 for line in lines if line.startswith("VmHWM"))


def measure(path: Path, device: str, profile: bool) -> dict[str, Any]:
    """Compile a file in a new process."""
    command = [sys.executable, __file__, "--compile", str(path), "--device", device]
    command += ["--profile"] if profile else []
    environment = {**os.environ, "FOURFOLD_CACHE": "none"}
    start = time.perf_counter()
    try:
        done = subprocess.run(
            command,
            check=False,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            timeout=GIVE_UP,
        )
    except subprocess.TimeoutExpired:
        return {"outcome": "ABANDONED", "seconds": time.perf_counter() - start, "peak_mb": 0.0}
    if done.returncode:
        return {"outcome": f"DIED {done.returncode}", "seconds": 0.0, "peak_mb": 0.0}
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def is_within_limits(row: dict[str, Any]) -> bool:
    seconds = SECONDS + SECONDS_PER_MB * row["file_mb"]
    memory = LIMIT_MB + row["tensors_mb"]
    known = row["outcome"] in ("planned", "refused")
    return known and bool(row["seconds"] <= seconds and row["peak_mb"] <= memory)


def show(row: dict[str, Any]) -> None:
    mark = "  " if is_within_limits(row) else "!!"
    launches = f"{row['launches']} launches" if "launches" in row else row.get("message", "")
    click.echo(
        f"{mark} {row['case']:28} {row['file_mb']:8.2f} MB {row['seconds']:7.2f} s"
        f" {row['peak_mb']:7.0f} MB  {row['outcome']}: {launches} {row.get('stages', '')}"
    )


@click.command(help=__doc__)
@click.argument("cases", nargs=-1)
@click.option("--scale", default=1.0, show_default=True, help="Factor for the counts in files.")
@click.option("--device", default="null", show_default=True, help="Device to plan for.")
@click.option("--profile", is_flag=True, help="Print the functions that take most of the time.")
@click.option("--list", "lists", is_flag=True, help="Print the names of the cases.")
@click.option("--compile", "single", type=click.Path(path_type=Path), help="Compile one file here.")
@click.option(
    "--json", "output", type=click.Path(path_type=Path), help="Write the results to this JSON file."
)
def main(
    cases: tuple[str, ...],
    scale: float,
    device: str,
    profile: bool,
    lists: bool,
    single: Path | None,
    output: Path | None,
) -> None:
    if single is not None:
        click.echo(json.dumps(compile_one(single, device, profile)))
        return
    if lists:
        click.echo("\n".join(f"{name:28} {make.__doc__}" for name, make in CASES.items()))
        return
    folder = WORK / "hostile"
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in cases or tuple(CASES):
        model = CASES[name](scale)
        path = folder / f"{name}.{model.extension}"
        path.write_bytes(model.content)
        row = measure(path, device, profile)
        row |= {
            "case": name,
            "file_mb": len(model.content) / 1e6,
            "tensors_mb": model.tensor_bytes / 1e6,
        }
        path.unlink()
        rows.append(row)
        show(row)
    over = [row["case"] for row in rows if not is_within_limits(row)]
    click.echo(f"{len(rows) - len(over)} of {len(rows)} files are within the limits")
    if output is not None:
        write_json(output, {"scale": scale, "files": rows})
    sys.exit(1 if over else 0)


if __name__ == "__main__":
    main()
