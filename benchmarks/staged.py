"""Convolutions on matrix units with copies ahead beside those without, launch by launch.

A model is lowered as a list of launches, once with kernels whose warps read for themselves and once
for each form of the kernels that copy ahead: those of `ops/kernels/matrix/staged.py`, which nothing
but tuning takes, and of `ops/kernels/matrix/warpgroup.py`, whose warps multiply by fours. All are
timed by the device's own clock, in turns; shown is the shortest time of each launch that has both.
Outputs must agree.

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
PLAIN, AHEAD = "matrix", ("staged", "warpgroup")
APART = 2e-2  # of an output's range, between two kernels in halves


def batched_graph(path: Path, batch: int) -> Graph:
    main = load_model(str(path), CompileOptions("mixed")).graph
    shapes = {name: (batch, *main.types[name].shape[1:]) for name in main.inputs}
    return rewrite(load_model(str(path), CompileOptions("mixed", shapes=shapes)).graph)


def forms_of(graph: Graph, device: DeviceInfo) -> dict[str, list[str]]:
    """For each key of a convolution that can copy ahead, its forms."""
    graph, target, _ = specialise_for(graph, device, OPTIONS)
    found: dict[str, list[str]] = {}
    for context in node_contexts(graph, choose_locations(graph, target.options), target):
        for variant in variants_of(registry()[context.node.op]):
            if variant.name in AHEAD and variant.refuses(context) is None:
                forms = [f"{variant.name}: {form}" for form in variant.choices(context)]
                found.setdefault(context.key, []).extend(forms)
    return found


def players_of(graph: Graph, device: DeviceInfo, only: Sequence[str] = ()) -> dict[str, Player]:
    """A player of the plan whose warps read for themselves, and of one for each form of the other
    kernels, or only for some.
    """
    keys = forms_of(graph, device)
    if not keys:
        raise click.ClickException(f"no convolution can copy ahead on {device.name}")
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
        if not error < APART:
            raise click.ClickException(f"{form} gives another result: {error:.1e} apart")


def rows_of(
    players: Mapping[str, Player], times: Mapping[str, list[float]], graph: Graph
) -> list[dict[str, Any]]:
    """Launches of the same node in all plans, those that have both kernels."""
    work = {node.name or node.outputs[0]: flops(graph, node) for node in graph.nodes}
    rows = []
    for number, launch in enumerate(players[PLAIN].plan.launches):
        found = {
            form: times[form][place]
            for form, player in players.items()
            for place, other in enumerate(player.plan.launches)
            if other.node == launch.node and form.partition(":")[0] in other.entry.split("_")
            if form != PLAIN
        }
        if found:
            form = min(found, key=lambda one: found[one])
            row = {"node": launch.node, "kernel": launch.entry, "flops": work.get(launch.node)}
            row |= {PLAIN: times[PLAIN][number], "best": found[form], "form": form, "all": found}
            rows.append(row)
    return rows


def show(title: str, rows: Sequence[dict[str, Any]], whole: float) -> None:
    click.echo(f"\n{title}\n\n| node | matrix, µs | copied ahead, µs | ratio | form | TFLOP/s |")
    click.echo("|---|--:|--:|--:|---|--:|")
    for row in rows:
        before, after = row[PLAIN], row["best"]
        rate = "–" if row["flops"] is None else f"{row['flops'] / after / 1e12:.0f}"
        cells = (f"{before * 1e6:.1f}", f"{after * 1e6:.1f}", f"{after / before:.2f}", row["form"])
        click.echo(f"| {row['node']} | {' | '.join(cells)} | {rate} |")
    before = sum(row[PLAIN] for row in rows)
    after = sum(min(row[PLAIN], row["best"]) for row in rows)
    click.echo(
        f"\nthese launches: {before * 1e3:.3f} ms by warps alone, {after * 1e3:.3f} with the "
        f"better of both; all launches {whole * 1e3:.3f}, then {(whole - before + after) * 1e3:.3f}"
    )


@click.command(help=__doc__)
@click.argument("models", nargs=-1, required=True)
@click.option("--device", default="cuda:0", show_default=True)
@click.option("--batch", default=32, show_default=True)
@click.option("--rounds", default=10, show_default=True)
@click.option("--forms", default="", help="Only these, with commas: '128x128 in 2,64x64 in 3'.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write the numbers here.")
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
