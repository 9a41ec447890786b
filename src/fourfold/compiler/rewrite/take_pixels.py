"""input x: f32[1,9,9,3]  ->  input x: u8[1,9,9,4]; x/real = picture(x), for inputs passed as bytes.

Frames of another size, or of a camera, use `frame` instead. If the model has channels first, a
transpose follows; if it takes bytes itself, they are rounded.

This is not a pass: it changes the inputs of a graph at the caller's request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fourfold.codegen.location import Channel
from fourfold.compiler.rewrite._names import PassConstants
from fourfold.graph import NONE, Graph, Node
from fourfold.ops.cast import Cast
from fourfold.ops.frame import Frame
from fourfold.ops.picture import Picture
from fourfold.ops.transpose import Transpose
from fourfold.processing.pixels import Pixels
from fourfold.processing.pixels.pixels import channels_first, height_and_width
from fourfold.types import DType, TensorType

Pictures = Mapping[str, Pixels]  # by the values that are passed as bytes
_CHANNELS_FIRST = Transpose((0, 3, 1, 2))


def take_pixels(graph: Graph, pictures: Pictures) -> Graph:
    """Return the graph with bytes for those of its inputs that are images."""
    for name in graph.arguments:
        if name in pictures:
            graph = _with_bytes(graph, name, pictures[name])
    return graph


def _with_bytes(graph: Graph, name: str, pixels: Pixels) -> Graph:
    values, type_ = PassConstants(graph), graph.types[name]
    real = values.declare(f"{name}/real", type_)
    steps = _steps(type_, pixels)
    reading_nodes, last = [], name
    for number, (op, attributes, step_type) in enumerate(steps):
        final = number == len(steps) - 1
        result = real if final else values.declare(f"{name}/{op}", step_type)
        reading_nodes.append(Node(op, (last,), (result,), attributes))
        last = result
    nodes = (node.renamed({name: real}) for node in graph.nodes)
    graph = values.apply((*reading_nodes, *nodes))
    grids = {real if key == name else key: grid for key, grid in graph.quantization.items()}
    types = {**graph.types, name: byte_type(type_, pixels)}
    return replace(graph, types=types, quantization=grids)


def _steps(type_: TensorType, pixels: Pixels) -> list[tuple[str, object, TensorType]]:
    """Return the ops from the bytes to the model's input, with attributes and types."""
    size = height_and_width(type_.shape, pixels.channels)
    picture = TensorType(DType.F32, (type_.shape[0], *size, pixels.channels))
    steps: list[tuple[str, object, TensorType]] = [(*_reading(type_, pixels), picture)]
    if type_.dtype is not DType.F32:
        steps.append(("round", NONE, picture))
        picture = picture.with_dtype(type_.dtype)
        steps.append(("cast", Cast(type_.dtype), picture))
    if channels_first(type_.shape, pixels.channels):
        steps.append(("transpose", _CHANNELS_FIRST, type_))
    return steps


def _reading(type_: TensorType, pixels: Pixels) -> tuple[str, object]:
    """Return the op that reads the bytes: one without a kernel if nothing is resized."""
    # The zero of an int8 model is 128.
    shift = 128.0 if type_.dtype is DType.I8 else 0.0
    channels = tuple(Channel(byte, zero + shift, by) for byte, zero, by in pixels.readings)
    model = height_and_width(type_.shape, pixels.channels)
    fit = pixels.fit_frame(pixels.frame_size(model), model)
    if fit.is_identity and not pixels.is_yuv:
        return "picture", Picture(channels)
    frame = Frame(pixels.order, channels, fit, pixels.resize, pixels.read_fill, pixels.matrix)
    return "frame", frame


def byte_type(type_: TensorType, pixels: Pixels) -> TensorType:
    """Return the type that a caller passes for an image input of this type."""
    size = pixels.frame_size(height_and_width(type_.shape, pixels.channels))
    return TensorType(DType.U8, pixels.frame_shape(type_.shape[0], size))
