"""Matrix products."""

from __future__ import annotations

from fourfold.formats.onnx.write_graph.graph_writer import GraphWriter, writes
from fourfold.graph import Node
from fourfold.ops.batch_matmul import BatchMatmul


@writes("fully_connected")
def fully_connected(writer: GraphWriter, node: Node) -> None:
    """Gemm, or MatMul and Add for more than two axes"""
    weights, bias = node.inputs[1], node.inputs[2] if len(node.inputs) > 2 else None
    added = None if bias is None else writer.read(bias)
    rows = writer.flattened.get(str(node.inputs[0]))
    if rows is not None:
        reordered = writer.read_weights(str(weights), rows)
        product = writer.add("Gemm", rows.tensor, reordered, added, transB=1)
        writer.give(node.outputs[0], product)
        return
    x = writer.read(node.inputs[0])
    if writer.type(node.inputs[0]).rank == 2:
        product = writer.add("Gemm", x, writer.read(weights), added, transB=1)
    else:
        product = writer.add("MatMul", x, writer.read(weights, (1, 0)))
        product = product if added is None else writer.add("Add", product, added)
    writer.give(node.outputs[0], product)


@writes("batch_matmul")
def batch_matmul(writer: GraphWriter, node: Node) -> None:
    """MatMul"""
    assert isinstance(node.attributes, BatchMatmul)
    a, b = node.inputs
    rank = writer.type(b).rank
    order = (*range(rank - 2), rank - 1, rank - 2) if node.attributes.transposed else None
    writer.give(node.outputs[0], writer.add("MatMul", writer.read(a), writer.read(b, order)))
