"""Compares LiteRT's interpreter with the GPU delegate and without, for all models of a folder.

Float models must be within 1e-4 of the range of an output. For quantized models, LiteRT's kernels
with and without XNNPACK disagree; the mean error to the nearer one may be 1.5 times their mean
difference, or 0.4 % of the range.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import numpy as np
from coverage import kind_of
from quantized import worst
from setting import SHARED, relative_error, replace_section

from fourfold.litert import GpuDelegate

COMMAND = "python benchmarks/delegate.py --write docs/coverage.md"
HEADING = "## Through the delegate"
DRAWS, ALLOWED = 3, 1e-4
Arrays = list[np.ndarray]


@dataclass(frozen=True)
class Row:
    """Result of one model: the nodes that the delegate took, and the error of the outputs."""

    model: str
    taken: str
    error: float
    allowed: float

    def __str__(self) -> str:
        verdict = "agrees" if self.error <= self.allowed else "**differs**"
        cells = (self.model, self.taken, f"{self.error:.1e}", f"{self.allowed:.1e}", verdict)
        return f"| {' | '.join(cells)} |"


def interpreter(content: bytes, plain: bool, delegate: GpuDelegate | None = None) -> Any:
    module = import_module("ai_edge_litert.interpreter")
    kinds = module.OpResolverType
    return module.Interpreter(
        model_content=content,
        num_threads=2,
        experimental_delegates=[delegate] if delegate else None,
        experimental_op_resolver_type=(
            kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES if plain else kinds.AUTO
        ),
    )


def run(made: Any, draws: Sequence[Arrays]) -> list[Arrays]:
    """Run all inputs in order; states carry over from one to the next."""
    made.allocate_tensors()
    indices = [detail["index"] for detail in made.get_input_details()]
    results = []
    for arrays in draws:
        for place, array in zip(indices, arrays, strict=True):
            made.set_tensor(place, array)
        made.invoke()
        results.append([made.get_tensor(one["index"]) for one in made.get_output_details()])
    return results


def draw(details: Sequence[dict[str, Any]], seed: int) -> Arrays:
    random, arrays = np.random.default_rng(seed), []
    for detail in details:
        kind, shape = np.dtype(detail["dtype"]), detail["shape"]
        if kind.kind == "f":
            arrays.append(random.uniform(-1, 1, shape).astype(kind))
        else:
            bytes_ = kind.kind in "iu" and kind.itemsize == 1
            low, high = (np.iinfo(kind).min, np.iinfo(kind).max) if bytes_ else (0, 2)
            arrays.append(random.integers(low, high, shape).astype(kind))
    return arrays


def joined(results: Sequence[Arrays]) -> Arrays:
    """Return each output stacked over all inputs."""
    return [np.stack(arrays) for arrays in zip(*results, strict=True)]


def compare(path: Path) -> Row:
    content, kind = path.read_bytes(), kind_of(path)
    alone = interpreter(content, plain=False)
    draws = [draw(alone.get_input_details(), seed) for seed in range(DRAWS)]
    fast = run(alone, draws)
    delegate = GpuDelegate(content)
    ours = run(interpreter(content, plain=False, delegate=delegate), draws)
    claims = delegate.claims
    taken = "0" if claims is None else f"{claims.claimed} of {claims.nodes}"
    title = f"{path.stem} {kind}".strip()
    if not kind:
        return Row(title, taken, relative_error(joined(ours), joined(fast)), ALLOWED)
    error, _, allowed = worst(ours, fast, run(interpreter(content, plain=True), draws))
    return Row(title, taken, error, allowed)


def lines(rows: Sequence[Row]) -> Iterator[str]:
    good, runtime = sum(row.error <= row.allowed for row in rows), version("ai-edge-litert")
    yield HEADING
    yield ""
    yield f"{good} of {len(rows)} models agree with ai-edge-litert {runtime} alone, in fp32, on"
    yield f"{DRAWS} random inputs in a row. Nodes are those that the delegate took of those that"
    yield "the model has; the rest stayed with the interpreter. For float models the error is the"
    yield "largest difference relative to the range of the output over these inputs. Where values"
    yield "(q) or weights (w) are integers, errors are means as in the first section, to the nearer"
    yield f"of LiteRT with and without XNNPACK. Written by `{COMMAND}`."
    yield ""
    yield "| model | nodes | error | allowed | verdict |"
    yield "|---|--:|--:|--:|---|"
    yield from map(str, rows)


@click.command(help=__doc__)
@click.argument("models", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--write", type=click.Path(path_type=Path), help="Markdown page whose section is replaced."
)
def main(models: tuple[Path, ...], write: Path | None) -> None:
    rows = []
    for path in models or tuple(sorted((SHARED / "models" / "tflite").glob("*.tflite"))):
        rows.append(compare(path))
        click.echo(str(rows[-1]))
    if write is not None:
        replace_section(write, HEADING, "\n".join(lines(rows)) + "\n")


if __name__ == "__main__":
    main()
