"""Find values that must share a grid, and the values whose ranges define all grids."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from fourfold.export.quantize.layers import fused_clamp, is_fused
from fourfold.export.quantize.rules import FIXED_GRID, LIMITS, MOVES, float_inputs
from fourfold.export.quantize.storage import Place, Range
from fourfold.graph import Graph, Node
from fourfold.types import DType, Quantization


@dataclass
class SharedGrids:
    """Groups of values that share a grid, as a union-find structure.

    `fixed` has the grids that an operator prescribes, by root. `regrids` are inputs with such a
    grid while other inputs of the same node have another one. `observed` are the values whose
    ranges are needed.
    """

    graph: Graph
    roots: dict[str, str] = field(default_factory=dict)
    fixed: dict[str, Quantization] = field(default_factory=dict)
    regrids: set[Place] = field(default_factory=set)
    observed: set[str] = field(default_factory=set)

    def root(self, value: str) -> str:
        while value in self.roots:
            value = self.roots[value]
        return value

    def join(self, one: str, other: str) -> None:
        first, second = self.root(one), self.root(other)
        if first != second:
            self.roots[second] = first

    def fixed_grid(self, value: str) -> Quantization | None:
        return self.fixed.get(self.root(value))

    def ranges(self, observed: Mapping[str, Range]) -> dict[str, Range]:
        """Return the range of each root, from the ranges of its observed values."""
        joined: dict[str, Range] = {}
        for value in sorted(self.observed):
            root = self.root(value)
            joined[root] = observed[value].joined(joined.get(root, observed[value]))
        return joined


def share_grids(graph: Graph, nodes: Collection[str], values: DType) -> SharedGrids:
    """Return the grids that these nodes share if all of them compute on integers of this type."""
    shared = SharedGrids(graph)
    for node in graph.nodes:
        if node.outputs[0] in nodes:
            _add(shared, node, values)
    for node in graph.nodes:
        if node.outputs[0] in nodes:
            _observe(shared, node, nodes)
    return shared


def _add(shared: SharedGrids, node: Node, values: DType) -> None:
    output = node.outputs[0]
    if node.op in FIXED_GRID[values]:
        shared.fixed[output] = FIXED_GRID[values][node.op]
    elif node.op in MOVES:
        _add_move(shared, node)
    elif is_fused(shared.graph, node):
        shared.join(str(node.inputs[0]), output)


def _add_move(shared: SharedGrids, node: Node) -> None:
    output, inputs = node.outputs[0], _live_inputs(shared.graph, node)
    grids = {at: shared.fixed_grid(str(node.inputs[at])) for at in inputs}
    if len(set(grids.values())) > 1:
        shared.regrids |= {(output, at) for at in inputs if grids[at] is not None}
        inputs = [at for at in inputs if grids[at] is None]
    for at in inputs:
        shared.join(str(node.inputs[at]), output)


def _live_inputs(graph: Graph, node: Node) -> list[int]:
    return [at for at in float_inputs(graph, node) if node.inputs[at] not in graph.constants]


def _observe(shared: SharedGrids, node: Node, nodes: Collection[str]) -> None:
    """Record the values whose ranges define the grids of a node's inputs and outputs."""
    graph, output = shared.graph, node.outputs[0]
    for at in _live_inputs(graph, node):
        name = str(node.inputs[at])
        producer = graph.producers.get(name)
        if producer is None or producer.outputs[0] not in nodes:
            _note(shared, name)
    if fused_clamp(graph, node) is None and (node.op not in MOVES or _adds_values(shared, node)):
        _note(shared, output)


def _adds_values(shared: SharedGrids, node: Node) -> bool:
    """Return True if a move's result has numbers that no input on its grid has."""
    constants = node.op not in LIMITS and any(
        node.inputs[at] in shared.graph.constants for at in float_inputs(shared.graph, node)
    )
    return constants or any(name == node.outputs[0] for name, _ in shared.regrids)


def _note(shared: SharedGrids, value: str) -> None:
    if shared.fixed_grid(value) is None:
        shared.observed.add(value)
