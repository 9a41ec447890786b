"""Runs all models of a folder with a batch of three, and compares with three single runs.

    python benchmarks/batches.py [--models FOLDER] [--device D]

Models whose inputs do not have a batch size of 1 are skipped. The error is the largest difference
from the single runs, relative to the range of the output. LiteRT's behaviour is printed next to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np
from peers.litert import open_litert
from setting import SHARED, relative_error

import fourfold
from fourfold.runtime.random_inputs import random_inputs

BATCH, ALLOWED = 3, 1e-4


def measure(path: Path, device: str) -> tuple[str, str]:
    """Describe the result of a batch in fourfold and in LiteRT."""
    with fourfold.Session(path, device, cache=None, placement="gpu") as session:
        if any(info.shape[:1] != (1,) for info in session.inputs):
            return "skipped", ""
        images = [random_inputs(session.inputs, seed) for seed in range(BATCH)]
        alone = []
        for image in images:
            session.reset()
            alone.append(list(session.run(image).values()))
        batch = {name: np.concatenate([one[name] for one in images]) for name in images[0]}
        expected = [np.concatenate(outputs) for outputs in zip(*alone, strict=True)]
        theirs = litert(path, list(batch.values()), expected)
        try:
            session.resize({name: array.shape for name, array in batch.items()})
        except fourfold.FourfoldError as error:
            return f"refused: {error.what}", theirs
        error = relative_error(list(session.run(batch).values()), expected)
    return (f"agrees, {error:.0e}" if error <= ALLOWED else f"DIFFERS, {error:.0e}"), theirs


def litert(path: Path, inputs: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> str:
    try:
        run = open_litert(str(path), inputs, 2)
        results = [] if run is None else run()
    except (RuntimeError, ValueError, fourfold.InputError):
        return "refuses"
    same = [one.shape == other.shape for one, other in zip(results, expected, strict=False)]
    return "image by image" if all(same) else "in a row"


@click.command(help=__doc__)
@click.option("--models", type=click.Path(path_type=Path), default=SHARED / "models" / "tflite")
@click.option("--device", default="auto", show_default=True)
def main(models: Path, device: str) -> None:
    counts: dict[tuple[str, str], int] = {}
    for path in sorted(models.glob("*.tflite")):
        ours, theirs = measure(path, device)
        print(f"{path.stem}: {ours} | LiteRT: {theirs or '-'}", flush=True)
        key = (ours.split(":")[0].split(",")[0], theirs)
        counts[key] = counts.get(key, 0) + 1
    for (ours, theirs), count in sorted(counts.items()):
        print(f"{count:3} {ours}" + (f", in LiteRT {theirs}" if theirs else ""))


if __name__ == "__main__":
    main()
