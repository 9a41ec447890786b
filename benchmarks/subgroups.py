"""Compares reductions within work-groups: sub-group exchange, or local memory alone.

Both are GPU kernels with the sub-groups of the device; on a CPU, kernels for CPUs are also
measured. Runs are interleaved and timed by the device's clock.

python benchmarks/subgroups.py --device Intel
"""

from __future__ import annotations

import time
from dataclasses import replace
from statistics import median

import click
import numpy as np

import fourfold
from fourfold.backends import Player, determine_facts, find_device, make_player
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.graph import NONE, Graph, Node
from fourfold.ops.base import registry
from fourfold.ops.base.rules import Reduce
from fourfold.ops.softmax import Softmax
from fourfold.types import TensorType

GROUP = 256
KINDS = {
    "softmax of 1001": ("softmax", "f32[1,1001]", Softmax()),
    "softmax of 64 times 384": ("softmax", "f32[64,384]", Softmax()),
    "mean of 7x7x1024": ("mean", "f32[1,7,7,1024]", Reduce((1, 2), keep_dims=True)),
    "largest of 224x224x3": ("reduce_max", "f32[1,224,224,3]", Reduce((1, 2, 3), keep_dims=True)),
    "1024 times 1001 weights": ("fully_connected", "f32[1,1024]", NONE),
}


def graph_of(op: str, source: str, attributes: object) -> Graph:
    """Return a graph with one node."""
    types, constants = {"x": TensorType.parse(source)}, {}
    if op == "fully_connected":
        generator = np.random.default_rng(1)
        constants["w"] = generator.uniform(-1, 1, (1001, 1024)).astype(np.float32)
        types["w"] = TensorType.of(constants["w"])
    node = Node(op, tuple(types), ("y",), attributes)
    (result,) = registry()[op].infer(attributes, *types.values())
    return Graph((node,), ("x",), ("y",), {**types, "y": result}, constants)


def players_of(device: fourfold.DeviceInfo, graph: Graph) -> dict[str, Player]:
    facts = {
        "exchange": replace(device, kind="gpu", max_work_group=GROUP),
        "memory": replace(device, kind="gpu", max_work_group=GROUP, subgroups=""),
    }
    facts |= {"as a CPU": device} if device.is_cpu else {}
    options = KernelOptions(form="list")
    return {name: make_player(device, make_plan(graph, f, options)) for name, f in facts.items()}


def measure(device: fourfold.DeviceInfo, graph: Graph, seconds: float) -> dict[str, list[float]]:
    """Return the seconds of the kernel in each form, run by run."""
    players = players_of(device, graph)
    x = np.random.default_rng(2).uniform(-1, 1, graph.types["x"].shape).astype(np.float32)
    times: dict[str, list[float]] = {name: [] for name in players}
    results = [player.run([x])[0] for player in players.values()]
    for other in results[1:]:
        np.testing.assert_allclose(results[0], other, rtol=1e-4, atol=1e-5)
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        for name, player in players.items():
            times[name].append(sum(player.profile([x], 1)))
    for player in players.values():
        player.close()
    return times


@click.command(help=__doc__)
@click.option("--device", default="auto", show_default=True)
@click.option("--seconds", default=4.0, show_default=True, help="Measuring time per row.")
def main(device: str, seconds: float) -> None:
    info = determine_facts(find_device(device), ("subgroups",))
    if not info.subgroups:
        raise click.ClickException(f"{info.name} has no sub-group exchange")
    click.echo(f"{info}; µs, medians and minima\n")
    names = ["exchange", "memory", *(["as a CPU"] if info.is_cpu else [])]
    click.echo(f"| what | {' | '.join(names)} |\n|---|{'--:|' * len(names)}")
    for title, what in KINDS.items():
        times = measure(info, graph_of(*what), seconds)
        cells = [f"{median(t) * 1e6:.1f} ({min(t) * 1e6:.1f})" for t in times.values()]
        click.echo(f"| {title} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
