"""Writes graphs as ONNX files, in the axis order that needs the fewest transposes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fourfold.errors import InputError, Refusal, UnsupportedError
from fourfold.formats.onnx.schema import ELEMENTS
from fourfold.formats.onnx.write_graph.file import write_file
from fourfold.formats.onnx.write_graph.graph_writer import GraphWriter
from fourfold.formats.onnx.write_graph.rules import rules
from fourfold.formats.onnx.write_graph.written_values import is_widened
from fourfold.formats.refusal import Unconvertible
from fourfold.formats.rule_table import summary
from fourfold.formats.writable import StoredAs, WritableModel
from fourfold.graph import Graph, Node
from fourfold.types import DType, Quantization, silent_arithmetic

_LAYERS = ("conv2d", "conv3d", "depthwise_conv2d", "fully_connected", "transpose_conv2d")
_BITS = 30  # bits of the largest number; float32 has 24
_MIN_EXPONENT = -126  # exponent of the smallest scale that is a normal float32


def keep_weights(model: WritableModel) -> WritableModel:
    """Store float weights and biases as int32, if the model has quantized values.

    ONNX Runtime quantizes a layer between DequantizeLinear and QuantizeLinear, and rounds its
    weights to 8 bits if they are floats. It leaves int32 weights alone.
    """
    graph, stored = model.graph, dict(model.stored)
    values = (one for name, one in stored.items() if name not in graph.constants)
    if all(one.quantization is None for one in values):
        return model
    for node in graph.nodes:
        for name in node.inputs[1:3] if node.op in _LAYERS else ():
            current = None if name is None else stored.get(name)
            if name in graph.constants and (current is None or not is_widened(current)):
                stored[str(name)] = _exact(graph.constants[str(name)])
    return replace(model, stored=stored)


def _exact(array: np.ndarray) -> StoredAs:
    """Return int32 storage with a power-of-two scale, so that only tiny numbers are rounded."""
    largest = float(np.abs(array).max(initial=0.0))
    exponent = math.frexp(largest)[1] - _BITS if math.isfinite(largest) else 0
    return StoredAs(DType.I32, Quantization((2.0 ** max(exponent, _MIN_EXPONENT),), (0,)))


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
