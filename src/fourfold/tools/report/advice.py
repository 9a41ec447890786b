"""Advice: layers of a model that cost avoidable time, and what to change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fourfold.compiler.partition.cost import Costs, flops
from fourfold.graph import Graph, Node
from fourfold.plan import Plan
from fourfold.plan.placement import Placement
from fourfold.plan.targets import GPU

MIN_SHARE = 0.01  # fraction of the whole time; smaller costs get no advice
MIN_FILTER_SIZE = 25  # weights per channel, from 5x5
_MOVES = {
    "transpose": "export the model so that values are in the order their readers want",
    "reshape": "keep the number of channels the same where a reshape is needed",
    "concat": "join values whose channels are a multiple of four, or along another axis",
    "slice": "cut at multiples of four channels, or along another axis",
    "pad": "let the convolution pad by itself (padding SAME)",
    "cast": "keep one type all the way",
}


@dataclass(frozen=True)
class Advice:
    """One thing that could be better: which nodes, what they cost in a run, and what to do."""

    kind: str
    nodes: tuple[str, ...]
    seconds: float
    text: str

    def __str__(self) -> str:
        first = (name.split(";")[0] for name in self.nodes[:3])  # exporters join several names
        names = ", ".join(f"'{name}'" for name in first)
        more = f" and {len(self.nodes) - 3} more" if len(self.nodes) > 3 else ""
        return f"{names}{more}: {self.text}"


@dataclass(frozen=True)
class Subject:
    """The basis of advice: the rewritten graphs of the GPU's parts, with their plans."""

    graphs: tuple[Graph, ...]
    plans: tuple[Plan, ...]
    placement: Placement
    costs: Costs
    open_inputs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def advise(subject: Subject) -> list[Advice]:
    """Return all advice, largest saving first."""
    rules = (_moves, _channels, _inputs, _filters, _splits, _sizes)
    advice = [one for rule in rules for one in rule(subject)]
    return sorted(advice, key=lambda one: -one.seconds)


def _seconds(subject: Subject, graph: Graph, node: Node) -> float:
    rates = subject.costs.rates[GPU]
    values = {*node.reads, *node.outputs}
    moved = sum(graph.types[value].bytes for value in values)
    return max(flops(graph, node) / rates.flops, moved / rates.bytes) + rates.node


def _nodes(subject: Subject) -> Iterator[tuple[Graph, Node]]:
    for graph in subject.graphs:
        for node in graph.nodes:
            yield graph, node


def _name(node: Node) -> str:
    return node.name or node.outputs[0]


def _moves(subject: Subject) -> Iterator[Advice]:
    """Find nodes that only move values, and need a kernel of their own for it."""
    for graph, plan in zip(subject.graphs, subject.plans, strict=True):
        nodes = {str(node): node for node in graph.nodes if node.op in _MOVES and not node.tail}
        costly = [nodes[text] for text in {launch.node for launch in plan.launches} & nodes.keys()]
        for op in sorted({node.op for node in costly}):
            same = [node for node in costly if node.op == op]
            seconds = sum(_seconds(subject, graph, node) for node in same)
            names = tuple(sorted(_name(node) for node in same))
            yield Advice("moves", names, seconds, f"{op} costs a kernel: {_MOVES[op]}")


def _channels(subject: Subject) -> Iterator[Advice]:
    """Find convolutions whose channels do not fill slices of four."""
    least = MIN_SHARE * subject.placement.seconds
    for graph, node in _nodes(subject):
        type = graph.types[node.outputs[0]]
        odd = type.channels % 4 and type.channels > 4
        if node.op in ("conv2d", "transpose_conv2d", "depthwise_conv2d") and odd:
            full = type.slices * 4
            lost = _seconds(subject, graph, node) * (1 - type.channels / full)
            if lost >= least:
                text = f"its {type.channels} channels cost as much as {full}, which would be free"
                yield Advice("channels", (_name(node),), lost, text)


def _inputs(subject: Subject) -> Iterator[Advice]:
    names = {name for part in subject.placement.parts[:1] for name in part.inputs}
    for graph in subject.graphs:
        for name in graph.inputs:
            type = graph.types[name]
            if name in names and type.rank == 4 and type.channels == 3:
                seconds = type.bytes / subject.costs.rates[GPU].bytes
                text = "3 channels are read one by one; 4 would be read at once"
                yield Advice("input", (name,), seconds, text)


def _filters(subject: Subject) -> Iterator[Advice]:
    least = 5 * MIN_SHARE * subject.placement.seconds
    for graph, node in _nodes(subject):
        if node.op != "conv2d" or node.inputs[1] is None:
            continue
        _, height, width, _ = graph.types[node.inputs[1]].shape
        seconds = _seconds(subject, graph, node)
        if height * width >= MIN_FILTER_SIZE and seconds >= least:
            count = (max(height, width) - 1) // 2
            saved = seconds * max(1 - 9 * count / (height * width), 0.0)
            text = f"a {height}x{width} filter; {count} of 3x3 in a row see as far for less"
            yield Advice("filter", (_name(node),), saved, text)


def _splits(subject: Subject) -> Iterator[Advice]:
    """Find operators that split the model into parts."""
    parts = subject.placement.parts
    if len(parts) <= 1:
        return
    for (op, _, reason), rows in subject.placement.grouped():
        if all(row.able for row in rows):
            continue  # they stay on the CPU because of their neighbours
        numbers = {row.part for row in rows}
        seconds = sum(parts[number].transfer for number in numbers)
        text = f"{op} stays on the CPU and cuts the model: {reason}"
        yield Advice("split", tuple(row.name for row in rows), seconds, text)


def _sizes(subject: Subject) -> Iterator[Advice]:
    for name, shape in subject.open_inputs.items():
        text = f"its sizes {list(shape)} are open; fix them when the model is exported"
        yield Advice("sizes", (name,), 0.0, text)
