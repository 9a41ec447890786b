"""Writes graphs as ONNX files, in the axis order that needs the fewest transposes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fourfold.errors import InputError, Refusal, UnsupportedError
from fourfold.formats.onnx.schema import ELEMENTS
from fourfold.formats.onnx.write_graph.exact_weights import keep_weights
from fourfold.formats.onnx.write_graph.file import write_file
from fourfold.formats.onnx.write_graph.graph_writer import GraphWriter
from fourfold.formats.onnx.write_graph.rules import rules
from fourfold.formats.refusal import Unconvertible
from fourfold.formats.rule_table import summary
from fourfold.formats.writable import WritableModel
from fourfold.graph import Graph, Node
from fourfold.types import silent_arithmetic

MAX_BYTES = 2**31 - 1  # size limit of a protobuf message


@silent_arithmetic()
def write(model: WritableModel) -> bytes:
    """Return the model as an ONNX file.

    Raises UnsupportedError with all nodes that ONNX cannot express.
    """
    refusals = _refused_ports(model.graph)
    if refusals:
        raise _unsupported(refusals)
    writer = GraphWriter(keep_weights(model))
    refusals += _refused_states(model.graph)
    for node in model.graph.nodes:
        reason = _write_node(writer, node)
        if reason is not None:
            refusals.append(Refusal(node.name or node.outputs[0], node.op, reason))
    if refusals:
        raise _unsupported(refusals)
    written = write_file(writer, model)
    if len(written) > MAX_BYTES:
        why = f"it would have {len(written)} bytes; the limit of protobuf is {MAX_BYTES}"
        fix = "quantize its weights, or write a .fourfold file"
        raise InputError("the model is too large for one ONNX file", why, fix)
    return written


def operators() -> Mapping[str, str]:
    """Return the ops that can be written, each with a short description."""
    return {op: summary(rule) for op, rule in rules().items()}


def _unsupported(refusals: Sequence[Refusal]) -> UnsupportedError:
    fix = "exclude these operators with outputs= or inputs=, or write a .fourfold file"
    return UnsupportedError("the model cannot be written as ONNX", refusals, fix)


def _refused_ports(graph: Graph) -> list[Refusal]:
    ports = dict.fromkeys((*graph.arguments, *graph.results))
    return [
        Refusal(name, "port", f"ONNX has no tensors of {graph.types[name].dtype.value}")
        for name in ports
        if graph.types[name].dtype not in ELEMENTS
    ]


def _refused_states(graph: Graph) -> list[Refusal]:
    reason = "ONNX has no states that persist between runs"
    return [Refusal(name, "state", reason) for name in graph.states]


def _write_node(writer: GraphWriter, node: Node) -> str | None:
    """Write a node; return the reason if it cannot be written."""
    rule = rules().get(node.op)
    writer.start(node)
    try:
        if rule is None:
            raise Unconvertible("ONNX has no operator for it")
        rule(writer, node)
    except Unconvertible as error:
        for name in node.outputs:  # so that nodes that read them are checked as well
            writer.assume(name)
        return str(error)
    return None
