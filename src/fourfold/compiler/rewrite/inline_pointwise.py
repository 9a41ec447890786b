"""a = f(x); y = g(b, a)  ->  y = formula(b, x), if f is pointwise and no other node reads a.

g may be a pointwise node or a step of a tail. A value that is smaller than y is read repeatedly; it
is recomputed for each read only if that is cheap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from fourfold.compiler.rewrite.fuse_pointwise import fits_tail
from fourfold.graph import Graph, Node, Step
from fourfold.ops.base import registry
from fourfold.ops.formula import Formula, Term

CHEAP = frozenset({"add", "sub", "mul", "maximum", "minimum", "negate", "relu", "square"})
MAX_CHEAP_OPS = 2  # cheap ops per element


def inline_pointwise(graph: Graph) -> Graph:
    now = {node.outputs[0]: node for node in graph.nodes if node.outputs}
    readers = {
        name: {node.outputs[0] for node in nodes if node.outputs}
        for name, nodes in graph.readers.items()
    }
    for name in list(now):
        source = _next_source(graph, now, readers, name)
        while source is not None:
            now[name] = source.reader
            for read in now.pop(source.name).reads:
                readers[read].discard(source.name)
                readers[read].add(name)
            source = _next_source(graph, now, readers, name)
    kept = (now.get(node.outputs[0]) if node.outputs else node for node in graph.nodes)
    return graph.with_nodes(tuple(node for node in kept if node is not None))


class _Source(NamedTuple):
    """A value that its only reader can compute, and the reader that does."""

    name: str
    reader: Node


def _next_source(
    graph: Graph, now: Mapping[str, Node], readers: Mapping[str, set[str]], reader: str
) -> _Source | None:
    node = now[reader]
    for name in node.reads if _is_computed(node) else _tail_reads(node):
        alone = name in now and readers[name] == {reader} and not graph.is_output(name)
        joined = (
            _inlined(node, now[name]) if alone and _can_inline(graph, now[name], node) else None
        )
        if joined is not None:
            return _Source(name, joined)
    return None


def _is_computed(node: Node) -> bool:
    """Return whether the node itself is pointwise, so that it can become part of a formula."""
    op = registry()[node.op]
    return op.pointwise is not None and op.view is None


def _tail_reads(node: Node) -> list[str]:
    """Return the values that only the tail of a node reads; the node may have many inputs."""
    own = set(node.inputs) if node.tail else set()
    names = dict.fromkeys(name for step in node.tail for name in step.inputs)
    return [name for name in names if name is not None and name not in own]


def _can_inline(graph: Graph, source: Node, node: Node) -> bool:
    """Return whether the source is pointwise and cheap, or not computed more often."""
    op = registry()[source.op]
    if op.pointwise is None or op.view is not None or len(node.outputs) != 1:
        return False
    inner, outer = graph.types[source.outputs[0]], graph.types[node.outputs[0]]
    ops = (source.op, *(step.op for step in source.tail))
    cheap = len(ops) <= MAX_CHEAP_OPS and all(op in CHEAP for op in ops)
    return inner.dtype.is_float and (inner.shape == outer.shape or cheap)


def _inlined(node: Node, source: Node) -> Node | None:
    """Return the node with the source inlined at the one step that reads it; None if impossible."""
    name, own = source.outputs[0], _is_computed(node)
    first = Step(node.op, node.attributes, node.inputs)
    steps = [first, *node.tail]
    positions = [number for number, step in enumerate(steps) if name in step.inputs]
    if len(positions) > 1 or (positions == [0] and not own):
        return None
    steps[positions[0]] = _substituted(steps[positions[0]], source)
    if not fits_tail(steps if own else steps[1:]):
        return None
    first, *tail = steps
    return replace(
        node, op=first.op, attributes=first.attributes, inputs=first.inputs, tail=tuple(tail)
    )


def _substituted(step: Step, source: Node) -> Step:
    """Return the step as a formula of its inputs and those of its source."""
    name = source.outputs[0]
    others = [other for other in step.inputs if other != name]
    further = [other for inner in source.tail for other in inner.inputs if other is not None]
    inputs = tuple(dict.fromkeys([*others, *source.inputs, *further]))
    numbers = {other: number for number, other in enumerate(inputs)}
    terms = [_term(Step(source.op, source.attributes, source.inputs), numbers)]
    for inner in source.tail:
        terms.append(_term(inner, numbers, running=len(inputs) + len(terms) - 1))
    numbers[name] = len(inputs) + len(terms) - 1
    terms.append(_term(step, numbers))
    return Step("formula", Formula(tuple(terms)), inputs)


def _term(step: Step, numbers: Mapping[str | None, int], running: int | None = None) -> Term:
    """Return one op of a formula; None in a step stands for `running`, if given."""
    operands = tuple(
        running if name is None and running is not None else numbers[name] for name in step.inputs
    )
    return Term(step.op, operands, step.attributes)
