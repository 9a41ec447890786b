"""Validity rules for graphs, each of which names its violations."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fourfold.errors import ModelError
from fourfold.graph import Graph, Node
from fourfold.ops.base import registry
from fourfold.types import TensorType

Rule = Callable[[Graph], Iterator[str]]


def check(graph: Graph) -> None:
    """Raise AssertionError with all violations; later rules rely on earlier ones."""
    for rule in RULES:
        wrong = list(rule(graph))
        if wrong:
            raise AssertionError(
                "\n  ".join([f"{graph.name}: {rule.__name__.replace('_', ' ')}", *wrong])
            )


def every_op_is_known(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        for op in (node.op, *(step.op for step in node.tail)):
            if op not in registry():
                yield f"'{op}' in: {node}"


def every_op_has_its_own_attributes(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        pairs = [(node.op, node.attributes), *((step.op, step.attributes) for step in node.tail)]
        for op, attributes in pairs:
            if not isinstance(attributes, registry()[op].attributes):
                yield f"{op} has {type(attributes).__name__} in: {node}"


def every_value_has_one_writer(graph: Graph) -> Iterator[str]:
    seen = {*graph.inputs, *graph.constants}
    for name in graph.inputs:
        if name in graph.constants:
            yield f"input '{name}' is also a constant"
    for node in graph.nodes:
        for name in node.outputs:
            if name in seen:
                yield f"'{name}' exists before: {node}"
            seen.add(name)


def every_value_is_written_before_it_is_read(graph: Graph) -> Iterator[str]:
    written = {*graph.inputs, *graph.constants}
    for node in graph.nodes:
        yield from (
            f"'{name}' is read before it is written in: {node}"
            for name in node.reads
            if name not in written
        )
        written.update(node.outputs)


def every_output_exists(graph: Graph) -> Iterator[str]:
    written = {*graph.inputs, *graph.constants, *graph.producers}
    yield from (
        f"output '{name}' is never written" for name in graph.outputs if name not in written
    )


def every_value_has_a_type(graph: Graph) -> Iterator[str]:
    for name in (*graph.inputs, *graph.constants, *graph.producers):
        if name not in graph.types:
            yield f"'{name}' has no type"


def every_constant_has_its_type(graph: Graph) -> Iterator[str]:
    for name, array in graph.constants.items():
        type_ = graph.types[name]
        actual = f"{array.dtype}{list(array.shape)}"
        if type_.dtype.has_numpy and (
            array.dtype != type_.dtype.numpy or array.shape != type_.shape
        ):
            yield f"'{name}' is declared as {type_} but is {actual}"


def every_tail_is_pointwise(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        for step in node.tail:
            if registry()[step.op].pointwise is None:
                yield f"{step.op} is not pointwise, in: {node}"
            if None not in step.inputs:
                yield f"{step.op} does not use the running result, in: {node}"
        if node.tail and len(node.outputs) != 1:
            yield f"a tail needs a single result: {node}"


def every_type_is_what_its_op_infers(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        try:
            inferred = _infer(graph, node)
        except ModelError as error:
            yield f"{error.what}: {error.why}, in: {node}"
            continue
        stated = tuple(graph.types[name] for name in node.outputs)
        if isinstance(inferred, str) or inferred != stated:
            types = inferred if isinstance(inferred, str) else list(map(str, inferred))
            yield f"{types} in: {node}"


def _infer(graph: Graph, node: Node) -> tuple[TensorType, ...] | str:
    """Return the types of the results after the tail, or a description of a wrong step."""
    first, *others = registry()[node.op].infer(node.attributes, *graph.input_types(node))
    for step in node.tail:
        types = (first if name is None else graph.types[name] for name in step.inputs)
        (after,) = registry()[step.op].infer(step.attributes, *types)
        if after.shape != first.shape:
            return f"{step.op} changes {first} to {after}"
        first = after
    return (first, *others)


RULES: tuple[Rule, ...] = (
    every_op_is_known,
    every_op_has_its_own_attributes,
    every_value_has_one_writer,
    every_value_is_written_before_it_is_read,
    every_output_exists,
    every_value_has_a_type,
    every_constant_has_its_type,
    every_tail_is_pointwise,
    every_type_is_what_its_op_infers,
)
