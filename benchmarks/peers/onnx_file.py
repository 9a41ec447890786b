"""Writes a graph as an ONNX file, without the packages onnx or protobuf."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from fourfold.graph import Graph
from fourfold.ops.base.window import Padding, Pair, Pool2d
from fourfold.types import Shape
from peers.translate import Constant, Convolution, translate

OPSET, IR_VERSION = 17, 8
FLOAT, INT64 = 1, 7
Attribute = int | float | str | Sequence[int]


def onnx_bytes(graph: Graph) -> bytes:
    """Return a model with the ports of the graph, those of rank four as NCHW."""
    file = OnnxFile()
    names = [f"in{place}" for place in range(len(graph.inputs))]
    results = translate(graph, file, names)
    inputs = [
        _port(name, _planes(graph.types[value].shape))
        for name, value in zip(names, graph.inputs, strict=True)
    ]
    outputs = [
        _port(name, _planes(graph.types[value].shape))
        for name, value in zip(results, graph.outputs, strict=True)
    ]
    body = b"".join(_part(1, node) for node in file.nodes) + _part(2, b"network")
    body += b"".join(_part(5, tensor) for tensor in file.tensors.values())
    body += b"".join(_part(11, port) for port in inputs)
    body += b"".join(_part(12, port) for port in outputs)
    return _number(1, IR_VERSION) + _part(7, body) + _part(8, _number(2, OPSET))


class OnnxFile:
    """The nodes and tensors written so far; a value is its name."""

    def __init__(self) -> None:
        self.nodes: list[bytes] = []
        self.tensors: dict[str, bytes] = {}

    def node(self, op: str, inputs: Sequence[str], **attributes: Attribute) -> str:
        name = f"v{len(self.nodes)}"
        body = b"".join(_part(1, one.encode()) for one in inputs)
        body += _part(2, name.encode()) + _part(3, name.encode()) + _part(4, op.encode())
        body += b"".join(_part(5, _attribute(key, value)) for key, value in attributes.items())
        self.nodes.append(body)
        return name

    def tensor(self, name: str, array: np.ndarray) -> str:
        kind = INT64 if array.dtype == np.int64 else FLOAT
        body = b"".join(_number(1, size) for size in array.shape) + _number(2, kind)
        body += _part(8, name.encode()) + _part(9, np.ascontiguousarray(array).tobytes())
        self.tensors[name] = body
        return name

    def numbers(self, values: Sequence[float], dtype: type = np.int64) -> str:
        return self.tensor(f"n{len(self.tensors)}", np.array(values, dtype))

    def convolve(self, x: str, how: Convolution) -> str:
        inputs = [x, self.tensor(how.weights.name, how.weights.array)]
        if how.bias is not None:
            inputs.append(self.tensor(how.bias.name, how.bias.array))
        return self.node(
            "Conv",
            inputs,
            strides=how.stride,
            dilations=how.dilation,
            pads=_pads(how.padding),
            group=how.groups,
            kernel_shape=how.weights.array.shape[2:],
        )

    def connect(self, x: str, weights: Constant, bias: Constant | None) -> str:
        inputs = [x, self.tensor(weights.name, weights.array)]
        if bias is not None:
            inputs.append(self.tensor(bias.name, bias.array))
        return self.node("Gemm", inputs, transB=1)

    def max_pool(self, x: str, pool: Pool2d) -> str:
        pads = _pads(pool.padding)
        return self.node("MaxPool", [x], kernel_shape=pool.filter, strides=pool.stride, pads=pads)

    def average_pool(self, x: str, pool: Pool2d) -> str:
        return self.node("AveragePool", [x], kernel_shape=pool.filter, strides=pool.stride)

    def resize(self, x: str, size: Pair, align_corners: bool) -> str:
        mode = "align_corners" if align_corners else "half_pixel"
        scales, shape = self.numbers([], np.float32), self.node("Shape", [x])
        outer = self.node("Slice", [shape, self.numbers([0]), self.numbers([2])])
        sizes = self.node("Concat", [outer, self.numbers(size)], axis=0)
        inputs = [x, "", scales, sizes]
        return self.node("Resize", inputs, mode="linear", coordinate_transformation_mode=mode)

    def mean(self, x: str) -> str:
        return self.node("GlobalAveragePool", [x])

    def clip(self, x: str, most: float | None) -> str:
        if most is None:
            return self.node("Relu", [x])
        limits = [self.tensor(f"limit_{end:g}", np.array(end, np.float32)) for end in (0.0, most)]
        return self.node("Clip", [x, *limits])

    def prelu(self, x: str, slope: Constant) -> str:
        return self.node("PRelu", [x, self.tensor(slope.name, slope.array.reshape(-1, 1, 1))])

    def logistic(self, x: str) -> str:
        return self.node("Sigmoid", [x])

    def softmax(self, x: str) -> str:
        return self.node("Softmax", [x], axis=-1)

    def add(self, a: str, b: str) -> str:
        return self.node("Add", [a, b])

    def pad(self, x: str, around: Sequence[tuple[int, int]]) -> str:
        before, after = zip(*around, strict=True)
        return self.node("Pad", [x, self.numbers([*before, *after])])

    def concat(self, parts: Sequence[str], axis: int) -> str:
        return self.node("Concat", parts, axis=axis)

    def reshape(self, x: str, before: Shape, after: Shape) -> str:
        if len(before) == 4 and before[1:3] != (1, 1):
            x = self.node("Transpose", [x], perm=(0, 2, 3, 1))
        x = self.node("Reshape", [x, self.numbers(after)])
        return self.node("Transpose", [x], perm=(0, 3, 1, 2)) if len(after) == 4 else x


def _pads(padding: Padding) -> tuple[int, ...]:
    return (padding.top, padding.left, padding.bottom, padding.right)


def _planes(shape: Shape) -> Shape:
    return (shape[0], shape[3], shape[1], shape[2]) if len(shape) == 4 else shape


def _port(name: str, shape: Shape) -> bytes:
    sizes = b"".join(_part(1, _number(1, size)) for size in shape)
    return _part(1, name.encode()) + _part(2, _part(1, _number(1, FLOAT) + _part(2, sizes)))


def _attribute(name: str, value: Attribute) -> bytes:
    body = _part(1, name.encode())
    if isinstance(value, str):
        return body + _part(4, value.encode()) + _number(20, 3)
    if isinstance(value, float):
        return body + _varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, 1)
    if isinstance(value, int):
        return body + _number(3, value) + _number(20, 2)
    return body + b"".join(_number(8, one) for one in value) + _number(20, 7)


def _part(field: int, body: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(body)) + body


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value % (1 << 64))


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
