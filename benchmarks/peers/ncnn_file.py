"""Writes ncnn's two files: the layers as text, and their weights behind one another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from fourfold.graph import Graph
from fourfold.ops.base.window import Padding, Pair, Pool2d
from fourfold.types import Shape
from peers import Missing
from peers.translate import Constant, Convolution, translate

MAGIC = 7767517
CLIP = 3  # a way to end a convolution


def ncnn_files(graph: Graph) -> tuple[str, bytes, list[str], list[str]]:
    """The text, the weights, and the names of inputs and outputs. ncnn knows no batch."""
    if any(graph.types[name].shape[:1] != (1,) for name in (*graph.inputs, *graph.outputs)):
        raise Missing("ncnn runs one picture at a time")
    file = NcnnFile()
    inputs = [file.layer("Input", [], []) for _ in graph.inputs]
    outputs = translate(graph, file, inputs)
    return file.text(), b"".join(file.weights), inputs, outputs


class NcnnFile:
    """The layers and weights written so far; a value is the name of its blob."""

    def __init__(self) -> None:
        self.layers: list[tuple[str, list[str], str, list[str]]] = []
        self.weights: list[bytes] = []
        self.flat: set[str] = set()  # vectors, which are no pictures any more

    def layer(self, kind: str, inputs: Sequence[str], words: Sequence[str]) -> str:
        name = f"b{len(self.layers)}"
        self.layers.append((kind, list(inputs), name, list(words)))
        return name

    def text(self) -> str:
        """All layers, with a Split after each value that several others read."""
        readers = Counter(name for _, inputs, _, _ in self.layers for name in inputs)
        left, lines, blobs = dict(readers), [], 0
        for kind, inputs, name, words in self.layers:
            taken = []
            for one in inputs:
                left[one] -= 1
                taken.append(f"{one}_{left[one]}" if readers[one] > 1 else one)
            lines.append(f"{kind} {name} {len(taken)} 1 {' '.join([*taken, name, *words])}")
            blobs += 1
            if readers[name] > 1:
                copies = [f"{name}_{number}" for number in range(readers[name])]
                lines.append(f"Split {name}_split 1 {len(copies)} {name} {' '.join(copies)}")
                blobs += len(copies)
        return "\n".join([str(MAGIC), f"{len(lines)} {blobs}", *lines, ""])

    def keep(self, constant: Constant, flagged: bool) -> int:
        """Store an array, where ncnn expects it behind a word that says 'floats'."""
        data = np.ascontiguousarray(constant.array, np.float32)
        self.weights.append((b"\0\0\0\0" if flagged else b"") + data.tobytes())
        return data.size

    def convolve(self, x: str, how: Convolution) -> str:
        outputs, inputs, height, width = how.weights.array.shape
        if x in self.flat:
            matrix = Constant(how.weights.name, how.weights.array.reshape(outputs, inputs))
            return self.connect(x, matrix, how.bias)
        words = [f"0={outputs}", f"1={width}", f"11={height}"]
        words += [f"2={how.dilation[1]}", f"12={how.dilation[0]}"]
        words += [f"3={how.stride[1]}", f"13={how.stride[0]}"]
        words += _pads(how.padding, (4, 15, 14, 16))
        words += [f"5={int(how.bias is not None)}", f"6={self.keep(how.weights, flagged=True)}"]
        if how.bias is not None:
            self.keep(how.bias, flagged=False)
        if how.groups == 1:
            return self.layer("Convolution", [x], words)
        return self.layer("ConvolutionDepthWise", [x], [*words, f"7={how.groups}"])

    def connect(self, x: str, weights: Constant, bias: Constant | None) -> str:
        words = [f"0={weights.array.shape[0]}", f"1={int(bias is not None)}"]
        words.append(f"2={self.keep(weights, flagged=True)}")
        if bias is not None:
            self.keep(bias, flagged=False)
        return self.layer("InnerProduct", [x], words)

    def max_pool(self, x: str, pool: Pool2d) -> str:
        return self.layer("Pooling", [x], ["0=0", *_window(pool)])

    def average_pool(self, x: str, pool: Pool2d) -> str:
        return self.layer("Pooling", [x], ["0=1", *_window(pool)])

    def resize(self, x: str, size: Pair, align_corners: bool) -> str:
        words = ["0=2", f"3={size[0]}", f"4={size[1]}", f"6={int(align_corners)}"]
        return self.layer("Interp", [x], words)

    def mean(self, x: str) -> str:
        self.flat.add(pooled := self.layer("Pooling", [x], ["0=1", "4=1"]))
        return pooled

    def clip(self, x: str, most: float | None) -> str:
        """What follows a convolution becomes part of it, as ncnn's own tools make it."""
        kind, inputs, name, words = self.layers[-1]
        if name == x and kind in ("Convolution", "ConvolutionDepthWise"):
            after = ["9=1"] if most is None else [f"9={CLIP}", f"-23310=2,0.0,{most}"]
            self.layers[-1] = (kind, inputs, name, [*words, *after])
            return name
        if most is None:
            return self.layer("ReLU", [x], [])
        return self.layer("Clip", [x], ["0=0.0", f"1={most}"])

    def prelu(self, x: str, slope: Constant) -> str:
        return self.layer("PReLU", [x], [f"0={self.keep(slope, flagged=False)}"])

    def logistic(self, x: str) -> str:
        return self.layer("Sigmoid", [x], [])

    def softmax(self, x: str) -> str:
        return self.layer("Softmax", [x], ["0=0", "1=1"])

    def add(self, a: str, b: str) -> str:
        return self.layer("BinaryOp", [a, b], ["0=0"])

    def pad(self, x: str, around: Sequence[tuple[int, int]]) -> str:
        _, (front, behind), (top, bottom), (left, right) = around
        words = [f"0={top}", f"1={bottom}", f"2={left}", f"3={right}", "4=0", "5=0.0"]
        return self.layer("Padding", [x], [*words, f"7={front}", f"8={behind}"])

    def concat(self, parts: Sequence[str], axis: int) -> str:
        return self.layer("Concat", parts, [f"0={axis - 1}"])

    def reshape(self, x: str, before: Shape, after: Shape) -> str:
        if len(before) == 4 and before[1:3] == (1, 1) and len(after) == 2:
            return self.layer("Reshape", [x], [f"0={after[1]}"])
        if len(before) == 4 and len(after) in (3, 4):
            turned = self.layer("Permute", [x], ["0=3"])  # channels last, as the graph has them
            words = [f"0={after[-1]}", f"1={after[-2]}"]
            words += [f"2={after[1]}"] if len(after) == 4 else []
            shaped = self.layer("Reshape", [turned], words)
            return self.layer("Permute", [shaped], ["0=4"]) if len(after) == 4 else shaped
        raise Missing("no translation of this reshape")


def _pads(padding: Padding, places: tuple[int, int, int, int]) -> list[str]:
    sizes = (padding.left, padding.right, padding.top, padding.bottom)
    return [f"{place}={size}" for place, size in zip(places, sizes, strict=True)]


def _window(pool: Pool2d) -> list[str]:
    words = [f"1={pool.filter[1]}", f"11={pool.filter[0]}"]
    words += [f"2={pool.stride[1]}", f"12={pool.stride[0]}", "5=1"]
    return words + _pads(pool.padding, (3, 14, 13, 15))
