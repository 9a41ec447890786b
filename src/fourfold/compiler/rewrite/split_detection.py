"""y = detection(b, s, a)  ->  t = decode_boxes(b, s, a); y, left = suppress_boxes(t).

Detections that compare boxes within their class stay, because the two ops do not support that.
"""

from __future__ import annotations

from dataclasses import replace

from fourfold.compiler.rewrite._names import PassConstants
from fourfold.graph import Graph, Node
from fourfold.ops.base import registry
from fourfold.ops.decode_boxes import DecodeBoxes
from fourfold.ops.detection import Detection
from fourfold.ops.suppress_boxes import SuppressBoxes


def split_detection(graph: Graph) -> Graph:
    """Decode boxes in parallel, so that only the selection is sequential."""
    if not any(_splits(node) for node in graph.nodes):
        return graph
    values = PassConstants(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes += _split(graph, node, values) if _splits(node) else [node]
    return values.apply(nodes)


def _splits(node: Node) -> bool:
    attributes = node.attributes
    if not isinstance(attributes, Detection) or node.tail:
        return False
    return not attributes.by_class and attributes.classes_per_box <= attributes.classes


def _split(graph: Graph, node: Node, values: PassConstants) -> list[Node]:
    attributes, output = node.attributes, node.outputs[0]
    assert isinstance(attributes, Detection)
    decode = DecodeBoxes(attributes.scales, attributes.classes, attributes.classes_per_box)
    suppress = SuppressBoxes(attributes.most, attributes.score, attributes.overlap)
    (type_,) = registry()["decode_boxes"].infer(decode, *graph.input_types(node))
    table = values.declare(f"{output}/decoded", type_)
    left = values.declare(f"{output}/left", registry()["suppress_boxes"].infer(suppress, type_)[1])
    return [
        replace(node, op="decode_boxes", outputs=(table,), attributes=decode),
        Node("suppress_boxes", (table,), (output, left), suppress, name=node.name),
    ]
