"""Measures the gain and cost of tuning: the time of models and of the search at each level.

    python benchmarks/tuning.py MODEL… [--precision P] [--device D] [--levels none,rapid,normal]

`--save` writes the choices as a table that the package can ship.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import median

import numpy as np

from fourfold.backends import find_device, make_player
from fourfold.compiler.compile import LoweringInput, load_model, prepare_lowering
from fourfold.compiler.tune import find_level, tune
from fourfold.options import CompileOptions


def seconds(lowering: LoweringInput, choices: dict[str, str], runs: int) -> tuple[float, float]:
    """Return the median and the minimum time from array to array."""
    player, graph = make_player(lowering.device, lowering.plan(choices)), lowering.graph
    random = np.random.default_rng(0)
    arrays = [
        np.asarray(random.uniform(-1, 1, graph.types[n].shape), graph.types[n].dtype.numpy)
        for n in graph.inputs
    ]
    times = []
    for _ in range(runs + 5):
        began = time.perf_counter()
        player.run(arrays)
        times.append(time.perf_counter() - began)
    player.close()
    return median(times[5:]), min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--levels", default="none,rapid,normal")
    parser.add_argument("--deadline", type=float)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--save", type=Path)
    arguments = parser.parse_args()
    device = find_device(arguments.device)
    options, kept = CompileOptions(arguments.precision), {}
    print(f"{device}, {arguments.precision}")
    print(f"{'model':32} {'level':10} {'search s':>9} {'median ms':>10} {'min ms':>8} {'gain':>6}")
    for path in arguments.models:
        lowering = prepare_lowering(load_model(str(path), options).graph, device, options)
        base = 0.0
        for level in arguments.levels.split(","):
            began = time.perf_counter()
            choices = tune(*lowering, find_level(level, arguments.deadline))
            cost = time.perf_counter() - began
            middle, least = seconds(lowering, choices, arguments.runs)
            base = base or middle
            numbers = f"{cost:9.1f} {middle * 1e3:10.3f} {least * 1e3:8.3f} {base / middle:6.2f}"
            print(f"{path.stem:32} {level:10} {numbers}", flush=True)
            kept |= choices
        if arguments.save:
            table = {"device": device.name, "platform": device.platform, "choices": kept}
            arguments.save.write_text(json.dumps(table, indent=1, sort_keys=True))


if __name__ == "__main__":
    main()
