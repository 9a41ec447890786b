"""t = rfft2d(x; size=(1, n)); y = complex_abs(t)  ->  y = spectrum(x; n), without complex numbers.

Reshapes in between move after it.
"""

from __future__ import annotations

from dataclasses import replace

from fourfold.compiler.rewrite._match import find_producer
from fourfold.compiler.rewrite._names import PassConstants
from fourfold.graph import Graph, Node
from fourfold.ops.base import registry
from fourfold.ops.reshape import Reshape
from fourfold.ops.rfft2d import Rfft2d
from fourfold.ops.spectrum import Spectrum


def find_spectrum(graph: Graph) -> Graph:
    values = PassConstants(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes += _find(graph, node, values) or [node]
    return graph if len(nodes) == len(graph.nodes) else values.apply(nodes)


def _find(graph: Graph, node: Node, values: PassConstants) -> list[Node]:
    """Return a spectrum and a reshape in place of the magnitude of a transform."""
    if node.op != "complex_abs":
        return []
    source = node.inputs[0]
    while (between := find_producer(graph, source, "reshape")) is not None:
        source = between.inputs[0]
    transform = find_producer(graph, source, "rfft2d")
    if transform is None or not isinstance(transform.attributes, Rfft2d):
        return []
    (x,), (rows, columns) = graph.input_types(transform), transform.attributes.size
    if x is None or rows != 1 or x.shape[-2] != 1:
        return []
    attributes, output = Spectrum(columns), node.outputs[0]
    (type_,) = registry()["spectrum"].infer(attributes, x)
    spectrum = values.declare(f"{output}/spectrum", type_)
    return [
        Node("spectrum", transform.inputs, (spectrum,), attributes, name=transform.name),
        replace(
            node,
            op="reshape",
            inputs=(spectrum,),
            attributes=Reshape(graph.types[output].shape),
        ),
    ]
