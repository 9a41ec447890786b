"""Cutting a model to some of its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fourfold.compiler.partition import Costs, Unit, find_units
from fourfold.device import DeviceInfo
from fourfold.formats import Model
from fourfold.plan.targets import GPU


def keep_outputs(model: Model, outputs: Sequence[str]) -> Model:
    """Return the model with only these outputs, by the names that callers use; () means all.

    Units stay whole, because a CPU engine runs them as a whole. All inputs and states stay.
    """
    if not outputs:
        return model
    graph, values = model.main, dict(zip(model.output_names, model.main.results, strict=True))
    kept = {id(node) for unit in _needed_units(model, outputs) for node in unit.nodes}
    nodes = tuple(node for node in graph.nodes if id(node) in kept)
    results = tuple(values[name] for name in outputs)
    outputs_and_states = (*results, *graph.states.values())
    return replace(
        model, main=graph.with_nodes(nodes, outputs=outputs_and_states), output_names=tuple(outputs)
    )


def estimate_saving(model: Model, outputs: Sequence[str], device: DeviceInfo) -> float:
    """Return the estimated fraction of a run's time that a model with only these outputs saves."""
    costs = Costs.of(model.main, device, 1, None)
    everything, needed = (
        sum(costs.unit(unit, GPU) for unit in units)
        for units in (_units(model), _needed_units(model, outputs))
    )
    return 1 - needed / everything if everything else 0.0


def _units(model: Model) -> tuple[Unit, ...]:
    return find_units(model.main, model.source_graph)


def _needed_units(model: Model, outputs: Sequence[str]) -> list[Unit]:
    graph = model.main
    names = zip(model.output_names, graph.results, strict=True)
    needed = {value for name, value in names if name in outputs} | {*graph.states.values()}
    kept = []
    for unit in reversed(_units(model)):
        if needed.intersection((*unit.writes, *unit.writes_in_file)):
            needed |= unit.required
            kept.append(unit)
    return kept[::-1]
