"""input x: f32[1,9,9,3]  ->  input x: u8[1,9,9,4]; x/real = picture(x), where bytes are to come.

This is no pass: it changes what a graph takes, because a caller asked for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fourfold.graph import Graph, Node
from fourfold.kernel.location import Channel
from fourfold.ops.picture import Picture
from fourfold.pixels import Pixels
from fourfold.rewrite._names import PassConstants
from fourfold.types import DType, TensorType

Pictures = Mapping[str, Pixels]  # by the values that come as bytes


def take_pixels(graph: Graph, pictures: Pictures) -> Graph:
    """The graph with bytes for those of its inputs that are pictures."""
    for name in graph.arguments:
        if name in pictures:
            graph = _with_bytes(graph, name, pictures[name])
    return graph


def _with_bytes(graph: Graph, name: str, pixels: Pixels) -> Graph:
    values = PassConstants(graph)
    real = values.declare(f"{name}/real", graph.types[name])
    attributes = Picture(tuple(Channel(*one) for one in pixels.readings))
    nodes = (node.renamed({name: real}) for node in graph.nodes)
    graph = values.apply((Node("picture", (name,), (real,), attributes), *nodes))
    return replace(graph, types={**graph.types, name: byte_type(graph.types[real], pixels)})


def byte_type(type_: TensorType, pixels: Pixels) -> TensorType:
    """What a caller passes for a picture of this type."""
    return TensorType(DType.U8, (*type_.shape[:-1], pixels.bytes))
