"""Reports the device memory of plans, and the minimum that they need.

    python benchmarks/memory.py MODEL…

*Least* is the peak size of live activations, if each one lives from the node that produces it to
the last node that reads it, in execution order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from fourfold.backends import find_device
from fourfold.compiler.compile import load_model, prepare_lowering
from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.options import CompileOptions
from fourfold.types import DType

PRECISIONS = ("fp32", "mixed")
MIB = 2**20
VIEW_OPS = ("reshape",)


def least_bytes(graph: Graph, half: bool) -> int:
    """Return the peak size of live activations, without inputs, outputs and constants."""
    ports = {*graph.inputs, *graph.outputs}
    first, last = {}, {}
    owners: dict[str, str] = {}
    for number, node in enumerate(graph.nodes):
        for name in node.reads:
            last[owners.get(name, name)] = number
        for name in node.outputs:
            if node.op in VIEW_OPS:
                owners[name] = owners.get(str(node.inputs[0]), str(node.inputs[0]))
            else:
                first[name] = number
    alive = [0] * len(graph.nodes)
    for name, start in first.items():
        if name not in ports and name in last:
            type_ = graph.types[name]
            size = type_.bytes // 2 if half and type_.dtype is DType.F32 else type_.bytes
            for number in range(start, last[name] + 1):
                alive[number] += size
    return max(alive, default=0)


def memory_of(model: Path, device: DeviceInfo) -> dict[str, Any]:
    row: dict[str, Any] = {"model": model.stem}
    for precision in PRECISIONS:
        options = CompileOptions(precision)
        lowering = prepare_lowering(load_model(str(model), options).graph, device, options)
        graph, plan = lowering.graph, lowering.plan()
        half = precision != "fp32"
        floats = sum(one.nbytes for one in graph.constants.values())
        row[precision] = {
            "weights": floats // 2 if half else floats,
            "constants": plan.bytes("constants"),
            "least": least_bytes(graph, half),
            "arena": plan.bytes("arena"),
            "all": sum(buffer.bytes for buffer in plan.buffers),
        }
    return row


def memory_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table lines, in MiB."""
    titles = ["weights", "constants", "least", "arena", "all"]
    heads = [f"{title}, {precision}" for precision in PRECISIONS for title in titles]
    lines = [f"| MiB | {' | '.join(heads)} |", "|---|" + "--:|" * len(heads)]
    for row in rows:
        cells = [f"{row[precision][t] / MIB:.2f}" for precision in PRECISIONS for t in titles]
        lines.append(f"| {row['model']} | {' | '.join(cells)} |")
    return lines


@click.command(help=__doc__)
@click.argument("models", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--device", default="auto", show_default=True)
def main(models: tuple[Path, ...], device: str) -> None:
    info = find_device(device)
    click.echo("\n".join(memory_table([memory_of(one, info) for one in models])))


if __name__ == "__main__":
    main()
