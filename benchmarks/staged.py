"""Compares matrix-unit convolutions with and without prefetching, launch by launch.

A model is lowered as a list of launches: once with kernels whose warps load their own operands, and
once for each form of the kernels that prefetch, those of `ops/kernels/matrix/staged.py`, which only
tuning selects, and of `ops/kernels/matrix/warpgroup.py`, in which four warps multiply together.
Runs are interleaved and timed by the device's clock; the table shows the shortest time of each
launch that has both. Outputs must agree.

python benchmarks/staged.py resnet50 --device cuda:0 --batch 32 --forms "64x128x64 in 4"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from networks import NETWORKS, network_file
from setting import WORK, describe_setting, relative_error, write_json

from fourfold.backends import Player, find_device, make_player, probe
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.compile import load_model
from fourfold.compiler.lower import make_plan
from fourfold.compiler.lower.kernels import node_contexts, variants_of
from fourfold.compiler.lower.locations import choose_locations
from fourfold.compiler.lower.specialise import specialise_for
from fourfold.compiler.partition.cost import flops
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.ops.base import registry
from fourfold.options import CompileOptions

OPTIONS = KernelOptions("mixed", form="list")
PLAIN, PREFETCHING = "matrix", ("staged", "warpgroup")
MAX_ERROR = 2e-2  # between two fp16 kernels, relative to an output's range


def batched_graph(path: Path, batch: int) -> Graph:
    main = load_model(str(path), CompileOptions("mixed")).graph
    shapes = {name: (batch, *main.types[name].shape[1:]) for name in main.inputs}
    return rewrite(load_model(str(path), CompileOptions("mixed", shapes=shapes)).graph)


def forms_of(graph: Graph, device: DeviceInfo) -> dict[str, list[str]]:
    """Return the prefetching forms of each convolution, by its key."""
    graph, target, _ = specialise_for(graph, device, OPTIONS)
    found: dict[str, list[str]] = {}
    for context in node_contexts(graph, choose_locations(graph, target.options), target):
        for variant in variants_of(registry()[context.node.op]):
            if variant.name in PREFETCHING and variant.refuses(context) is None:
                forms = [f"{variant.name}: {form}" for form in variant.choices(context)]
                found.setdefault(context.key, []).extend(forms)
    return found


def players_of(graph: Graph, device: DeviceInfo, only: Sequence[str] = ()) -> dict[str, Player]:
    """Return a player for the plan without prefetching, and one for each form of the others, or
    only for the forms in `only`.
    """
    keys = forms_of(graph, device)
    if not keys:
        raise click.ClickException(f"no convolution can prefetch on {device.name}")
    plain = dict.fromkeys(keys, PLAIN)
    choices: dict[str, Mapping[str, str]] = {PLAIN: plain}
    for form in dict.fromkeys(form for forms in keys.values() for form in forms):
        if not only or form.partition(": ")[2] in only:
            chosen = {key: form for key, forms in keys.items() if form in forms}
            choices[form] = {**plain, **chosen}
    return {
        form: make_player(device, make_plan(graph, device, OPTIONS, chosen))
        for form, chosen in choices.items()
    }


def times_in_turns(
    players: Mapping[str, Player], arrays: Sequence[np.ndarray], rounds: int
) -> dict[str, list[float]]:
    best = {form: [float("inf")] * len(one.plan.launches) for form, one in players.items()}
    for _ in range(rounds):
        for form, player in players.items():
            pairs = zip(best[form], player.profile(arrays, 3), strict=True)
            best[form] = [min(pair) for pair in pairs]
    return best


def check(players: Mapping[str, Player], arrays: Sequence[np.ndarray]) -> None:
    expected: list[Any] = list(players[PLAIN].run(arrays))
    for form, player in players.items():
        error = relative_error(list(player.run(arrays)), expected)  # type: ignore[arg-type]
        if not error < MAX_ERROR:
            raise click.ClickException(f"{form} gives a different result: the error is {error:.1e}")


def rows_of(
    players: Mapping[str, Player], times: Mapping[str, list[float]], graph: Graph
) -> list[dict[str, Any]]:
    """Return the launches of nodes that have both kinds of kernels."""
    work = {node.name or node.outputs[0]: flops(graph, node) for node in graph.nodes}
    rows = []
    for number, launch in enumerate(players[PLAIN].plan.launches):
        seconds = {
            form: times[form][place]
            for form, player in players.items()
            for place, other in enumerate(player.plan.launches)
            if other.node == launch.node and form.partition(":")[0] in other.entry.split("_")
            if form != PLAIN
        }
        if seconds:
            form = min(seconds, key=lambda one: seconds[one])
            row = {"node": launch.node, "kernel": launch.entry, "flops": work.get(launch.node)}
            row |= {
                PLAIN: times[PLAIN][number],
                "best": seconds[form],
                "form": form,
                "all": seconds,
            }
            rows.append(row)
    return rows


def show(title: str, rows: Sequence[dict[str, Any]], whole: float) -> None:
    click.echo(f"\n{title}\n\n| node | matrix, µs | prefetched, µs | ratio | form | TFLOP/s |")
    click.echo("|---|--:|--:|--:|---|--:|")
    for row in rows:
        before, after = row[PLAIN], row["best"]
        rate = "–" if row["flops"] is None else f"{row['flops'] / after / 1e12:.0f}"
        cells = (f"{before * 1e6:.1f}", f"{after * 1e6:.1f}", f"{after / before:.2f}", row["form"])
        click.echo(f"| {row['node']} | {' | '.join(cells)} | {rate} |")
    before = sum(row[PLAIN] for row in rows)
    after = sum(min(row[PLAIN], row["best"]) for row in rows)
    click.echo(
        f"\nthese launches: {before * 1e3:.3f} ms without prefetching, {after * 1e3:.3f} with the "
        f"better of both; all launches {whole * 1e3:.3f}, then {(whole - before + after) * 1e3:.3f}"
    )


@click.command(help=__doc__)
@click.argument("models", nargs=-1, required=True)
@click.option("--device", default="cuda:0", show_default=True)
@click.option("--batch", default=32, show_default=True)
@click.option("--rounds", default=10, show_default=True)
@click.option("--forms", default="", help="Comma-separated forms: '128x128 in 2,64x64 in 3'.")
@click.option(
    "--json", "output", type=click.Path(path_type=Path), help="Write the results to this JSON file."
)
def main(
    models: tuple[str, ...],
    device: str,
    batch: int,
    rounds: int,
    forms: str,
    output: Path | None,
) -> None:
    info = probe(find_device(device))
    report: dict[str, Any] = {"setting": describe_setting(info), "batch": batch}
    for name in models:
        path = network_file(name, WORK) if name in NETWORKS else Path(name)
        graph = batched_graph(path, batch)
        players = players_of(graph, info, [one for one in forms.split(",") if one])
        random = np.random.default_rng(0)
        arrays = [
            random.uniform(-1, 1, graph.types[one].shape).astype(graph.types[one].dtype.numpy)
            for one in graph.inputs
        ]
        check(players, arrays)
        times = times_in_turns(players, arrays, rounds)
        rows = rows_of(players, times, graph)
        show(f"{path.stem}, batch {batch}, {info}", rows, sum(times[PLAIN]))
        report[path.stem] = {"rows": rows, "all": times}
    if output is not None:
        write_json(output, report)


if __name__ == "__main__":
    main()
