"""The graph of a model, and the lowered graph of each part on the device with its kernels and
memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fourfold.compiler.compile import LoweringInput
from fourfold.compiler.lower.details import LoweringDetails
from fourfold.compiler.placement import PlacementProblem, decide, read_problem
from fourfold.formats.units import Unit, find_units
from fourfold.graph import Graph, Node
from fourfold.plan.placement import Placement
from fourfold.runtime.instance import ModelInstance
from fourfold.runtime.loading import tuned_choices


@dataclass(frozen=True)
class DevicePart:
    """A part of the model on the device, by its number among all parts."""

    number: int
    lowering: LoweringInput
    details: LoweringDetails


@dataclass(frozen=True)
class LoweredModel:
    """A model in units of its file's operators, and its parts on the device."""

    problem: PlacementProblem
    graph: Graph
    units: tuple[Unit, ...]
    placement: Placement
    parts: tuple[DevicePart, ...]

    @property
    def unit_of(self) -> Mapping[int, str]:
        """Names of units by the ids of their nodes."""
        return {id(node): unit.name for unit in self.units for node in unit.nodes}


def find_lowered(instance: ModelInstance, placement: Placement) -> LoweredModel:
    """Read and lower the model of a session again, with the session's options."""
    request = instance.request
    choices = tuned_choices(request.device, instance.store)
    quiet = replace(request.placement_options, on_fallback=None, strict=False)
    readable = request.readable
    options = request.compile_options
    problem = read_problem(
        readable.content,
        request.device,
        options,
        quiet,
        title=request.title,
        origin=readable.origin,
    )
    parts: tuple[DevicePart, ...] = ()
    if placement.on_gpu:
        decision = decide(problem, choices)
        problem = decision.problem
        parts = tuple(
            DevicePart(number, part.lowering, _details(instance, part.lowering, choices))
            for number, part in decision.lowered.items()
        )
    units = find_units(problem.graph, problem.model.source_graph)
    return LoweredModel(problem, problem.graph, units, placement, parts)


def _details(
    instance: ModelInstance, lowering: LoweringInput, choices: Mapping[str, str]
) -> LoweringDetails:
    """Return the details of the session's plan, which uses smaller kernels if memory is short."""
    details = lowering.details(choices)
    arenas = {buffer.bytes for buffer in instance.model.buffers if buffer.kind == "arena"}
    if details.arena in arenas:
        return details
    smaller = replace(lowering.options, saves_memory=True)
    return lowering._replace(options=smaller).details(choices)


def covered_nodes(graph: Graph, node: Node, known: Iterable[str]) -> list[Node]:
    """Return the nodes of a graph that another node replaces: those between its inputs, or other
    `known` values, and its outputs.
    """
    stop = {*node.reads, *known} - {*node.outputs}
    open_values, nodes = list(node.outputs), dict[int, Node]()
    while open_values:
        producer = graph.producers.get(open_values.pop())
        if producer is not None and id(producer) not in nodes:
            nodes[id(producer)] = producer
            open_values += [value for value in producer.reads if value not in stop]
    return list(reversed(nodes.values()))
