"""Nodes and edges of the graph as it ran: nodes of the device's parts with their kernels, operators
of the file for what stays on the CPU, and what goes in and out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace

from fourfold.compiler.partition.cost import flops
from fourfold.formats.units import Unit
from fourfold.graph import Graph
from fourfold.graph import Node as GraphNode
from fourfold.plan.placement import OperatorPlacement
from fourfold.plan.targets import GPU
from fourfold.tools.report.run_report.layout import GraphLayout, layered_layout
from fourfold.tools.report.run_report.lowered_parts import DevicePart, LoweredModel, covered_nodes
from fourfold.tools.report.run_report.measured import KernelTimes
from fourfold.tools.report.run_report.record import (
    RunEdge,
    RunKernel,
    RunNode,
    RunOperator,
    RunTensor,
)

INPUT, OUTPUT = "input", "output"  # targets of the nodes of inputs and outputs
LETTER, MARGIN, MIN_WIDTH = 7.4, 26.0, 96.0  # of the title of a node, in pixels


@dataclass
class RunGraph:
    """A graph of the nodes that ran, under construction. `keys` are those of tuned choices."""

    nodes: list[RunNode] = field(default_factory=list)
    edges: list[RunEdge] = field(default_factory=list)
    kernels: list[RunKernel] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    form: str = "launches"  # see `Profile`
    keys: dict[int, tuple[str, str]] = field(default_factory=dict)  # key and variant by node


def build_graph(model: LoweredModel, times: KernelTimes) -> RunGraph:
    """Return all nodes that ran, with their positions on the page."""
    built = RunGraph(form=times.form)
    _add_ends(built, model.graph, model.graph.arguments, INPUT)
    by_part = {part.number: part for part in model.parts}
    units = {unit.name: unit for unit in model.units}
    for number in range(len(model.placement.parts)):
        if number in by_part:
            _add_device_part(built, model, by_part[number], times)
        else:
            rows = [row for row in model.placement.rows if row.part == number]
            _add_cpu_part(built, model.graph, [(row, units[row.name]) for row in rows])
    _add_ends(built, model.graph, model.graph.results, OUTPUT)
    _connect(built)
    return built


def _add_ends(built: RunGraph, graph: Graph, names: Iterable[str], target: str) -> None:
    for name in names:
        value = (RunTensor(name, str(graph.types[name])),)
        ports = {"writes": value} if target == INPUT else {"reads": value}
        built.nodes.append(_node(name, target, "", target, -1, **ports))


def _node(name: str, op: str, text: str, target: str, part: int, **more: object) -> RunNode:
    return RunNode(name, op, text, target, part, 0.0, 0.0, 0.0, **more)  # type: ignore[arg-type]


def _add_device_part(
    built: RunGraph, model: LoweredModel, part: DevicePart, times: KernelTimes
) -> None:
    details, first = part.details, len(built.nodes)
    rows = {row.name: row for row in model.placement.rows}
    known = {*details.graph.inputs, *(v for node in details.graph.nodes for v in node.outputs)}
    counted, named = set[int](), set[str]()
    for detail in details.nodes:
        node = detail.node
        work = covered_nodes(part.lowering.graph, node, known)
        fresh = [one for one in work if id(one) not in counted]
        counted.update(map(id, fresh))
        names = [model.unit_of.get(id(one), "") for one in covered_nodes(model.graph, node, known)]
        mine = [name for name in dict.fromkeys(names) if name in rows and name not in named]
        named.update(mine)
        if detail.way:
            built.keys[len(built.nodes)] = (detail.key, detail.way)
        built.nodes.append(
            _node(
                node.name or node.outputs[0],
                " + ".join([node.op, *(step.op for step in node.tail)]),
                str(node),
                GPU,
                part.number,
                attributes=tuple(_attributes(node)),
                reads=tuple(_tensors(details.graph, node.reads)),
                writes=tuple(_tensors(details.graph, node.outputs)),
                operators=tuple(_operator(rows[name]) for name in mine),
                flops=sum(flops(part.lowering.graph, one) for one in fresh),
            )
        )
    _add_kernels(built, part, first, times)


def _add_kernels(built: RunGraph, part: DevicePart, first: int, times: KernelTimes) -> None:
    """Add the kernels of a part whose nodes start at `first`, and their times to the nodes."""
    for detail in part.details.kernels:
        launch, at = detail.launch, first + detail.node
        time = times.take(launch.node)
        seconds = None if time is None else time.seconds
        waiting = None if time is None else time.waiting
        text = f"{launch.entry} of part {part.number}" if part.number else launch.entry
        built.texts[text] = detail.text
        built.kernels.append(
            RunKernel(
                entry=launch.entry,
                node=at,
                grid=launch.grid,
                local=launch.local,
                bytes_read=detail.bytes_read,
                bytes_written=detail.bytes_written,
                text=text,
                seconds=seconds,
                waiting=waiting,
            )
        )
        node = built.nodes[at]
        built.nodes[at] = replace(
            node,
            kernels=(*node.kernels, len(built.kernels) - 1),
            seconds=node.seconds if seconds is None else (node.seconds or 0.0) + seconds,
            bytes=node.bytes + detail.bytes_read + detail.bytes_written,
        )


def _add_cpu_part(
    built: RunGraph, graph: Graph, rows: Sequence[tuple[OperatorPlacement, Unit]]
) -> None:
    for row, unit in rows:
        writes = dict.fromkeys((*unit.outputs(row.target), *unit.writes))
        reads = [value for value in unit.inputs(row.target) if value not in writes]
        constants = [v for node in unit.nodes for v in node.reads if v in graph.constants]
        added = _node(
            row.name,
            row.op,
            "",
            row.target,
            row.part,
            attributes=tuple(pair for node in unit.nodes for pair in _attributes(node)),
            reads=tuple(_tensors(graph, dict.fromkeys([*reads, *constants]))),
            writes=tuple(_tensors(graph, writes)),
            operators=(_operator(row),),
            flops=sum(flops(graph, node) for node in unit.nodes),
        )
        built.nodes.append(added)


def _operator(row: OperatorPlacement) -> RunOperator:
    return RunOperator(row.name, row.op, row.target, row.reason, row.seconds)


def _attributes(node: GraphNode) -> Iterator[tuple[str, str]]:
    for one in fields(node.attributes):  # type: ignore[arg-type]
        yield one.name, str(getattr(node.attributes, one.name))
    for step in node.tail:
        others = [name for name in step.inputs if name is not None]
        yield "then", f"{step.op}({', '.join(others)})" if others else step.op


def _tensors(graph: Graph, names: Iterable[str]) -> Iterator[RunTensor]:
    for name in names:
        type_ = graph.types.get(name)
        yield RunTensor(name, "" if type_ is None else str(type_), name in graph.constants)


def _connect(built: RunGraph) -> None:
    """Add an edge for each value that a node reads from another, and lay out the graph."""
    producers: dict[str, int] = {}
    pairs: dict[tuple[int, int], RunTensor] = {}
    for number, node in enumerate(built.nodes):
        for value in node.reads:
            source = producers.get(value.name)
            if source is not None:
                pairs.setdefault((source, number), value)
        producers.update({value.name: number for value in node.writes})
    built.nodes = [replace(node, width=_width(node)) for node in built.nodes]
    layout = layered_layout([node.width for node in built.nodes], list(pairs))
    built.nodes = _placed(built.nodes, layout)
    built.edges = [
        RunEdge(source, target, value.name, value.type, points)
        for ((source, target), value), points in zip(pairs.items(), layout.edges, strict=True)
    ]


def _placed(nodes: Sequence[RunNode], layout: GraphLayout) -> list[RunNode]:
    pairs = zip(nodes, layout.nodes, strict=True)
    return [replace(node, x=round(x, 1), y=round(y, 1)) for node, (x, y) in pairs]


def _width(node: RunNode) -> float:
    """Return the width of the longer of a node's two lines: its op, and the type of its result."""
    value = next(iter((*node.writes, *node.reads)), None)
    return max(node_width(node.op), node_width("" if value is None else value.type))


def node_width(title: str) -> float:
    """Return the width of a node with this title, in pixels."""
    return max(MIN_WIDTH, round(min(len(title), 34) * LETTER + MARGIN, 1))
