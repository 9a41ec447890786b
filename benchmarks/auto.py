"""Whether placement='auto' is ever slower than LiteRT alone: every model of a folder, turn by turn.

    python benchmarks/auto.py [FOLDER]

A ratio of 0.8 means that fourfold took 0.8 of LiteRT's time, wherever it chose to run.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from setting import SHARED

import fourfold
from fourfold.cli._inputs import random_inputs
from fourfold.cpu.litert import make_interpreter

ROUNDS, SECONDS = 25, 3.0
Run = Callable[[], object]


def litert_run(model: Path, session: fourfold.Session, arrays: dict) -> Run:
    interpreter = make_interpreter(model.read_bytes(), os.cpu_count())
    interpreter.allocate_tensors()
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()

    def run() -> object:
        for detail, info in zip(inputs, session.inputs, strict=True):
            interpreter.set_tensor(detail["index"], arrays[info.name])
        interpreter.invoke()
        return [interpreter.get_tensor(detail["index"]) for detail in outputs]

    return run


def race(ours: Run, theirs: Run) -> tuple[float, float]:
    """The ratios of the medians and of the minima."""
    times: tuple[list[float], list[float]] = ([], [])
    stop = time.perf_counter() + SECONDS
    for number in range(ROUNDS + 3):
        for run, noted in zip((ours, theirs), times, strict=True):
            began = time.perf_counter()
            run()
            if number >= 3:
                noted.append(time.perf_counter() - began)
        if len(times[1]) > 2 and time.perf_counter() > stop:
            break
    return median(times[0]) / median(times[1]), min(times[0]) / min(times[1])


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else SHARED / "models" / "tflite"
    print("| model | of LiteRT's time | of minima | runs on |\n|---|--:|--:|---|")
    with TemporaryDirectory() as cache:
        for model in sorted(folder.glob("*.tflite")):
            with fourfold.Session(model, placement="auto", cache=cache) as session:
                arrays = random_inputs(session.inputs, 0)
                try:
                    theirs = litert_run(model, session, arrays)
                except (RuntimeError, ValueError):
                    continue  # LiteRT alone cannot run it: nothing to be slower than
                middle, least = race(lambda s=session, a=arrays: s.run(a), theirs)
                where = "the device" if session.placement.whole else "the CPU, or both"
            print(f"| {model.stem} | {middle:.2f} | {least:.2f} | {where} |", flush=True)


if __name__ == "__main__":
    main()
