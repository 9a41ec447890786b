"""ncnn with Vulkan. The network is written as ncnn's two files: layers as text, and weights."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fourfold.graph import Graph
from fourfold.ops.base.window import Padding, Pair, Pool2d
from fourfold.types import Shape
from peers import Missing, Opened, Task, planes
from peers.translate import Constant, Convolution, translate

DRIVERS = ("/usr/local/nvidia/share/vulkan/icd.d", "/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d")
MAGIC = 7767517
CLIP = 3  # code of a fused activation


def open_peer(task: Task) -> Opened:
    find_driver()
    try:
        import ncnn
    except ImportError as error:
        raise Missing("ncnn is not installed") from error
    if ncnn.get_gpu_count() == 0:
        raise Missing("ncnn finds no Vulkan device")
    net = ncnn.Net()
    net.opt.use_vulkan_compute = True
    return open_net(ncnn, net, task, ncnn.get_gpu_info(0).device_name())


def find_driver() -> None:
    """Find NVIDIA's Vulkan driver, which may be outside the loader's path in a container."""
    manifests = [
        path for folder in DRIVERS for path in sorted(Path(folder).glob("nvidia_icd*.json"))
    ]
    if manifests:
        os.environ.setdefault("VK_ICD_FILENAMES", str(manifests[0]))
        os.environ.setdefault("VK_DRIVER_FILES", str(manifests[0]))
        os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())


def open_net(ncnn: Any, net: Any, task: Task, name: str) -> Opened:
    net.opt.num_threads = task.threads
    for option in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic"):
        setattr(net.opt, option, task.half)
    text, weights, inputs, outputs = ncnn_files(task.graph)
    with tempfile.TemporaryDirectory() as folder:
        parameters, model = Path(folder, "net.param"), Path(folder, "net.bin")
        parameters.write_text(text, encoding="ascii")
        model.write_bytes(weights)
        if net.load_param(str(parameters)) or net.load_model(str(model)):
            raise Missing("ncnn does not read the network")
    arrays = [planes(one)[0] for one in task.arrays()]
    shapes = [_planes(task.graph.types[output].shape) for output in task.graph.outputs]

    def run() -> list[np.ndarray]:
        extractor = net.create_extractor()
        for blob, array in zip(inputs, arrays, strict=True):
            extractor.input(blob, ncnn.Mat(array).clone())
        results = []
        for blob, shape in zip(outputs, shapes, strict=True):
            code, mat = extractor.extract(blob)
            if code:
                raise Missing(f"ncnn fails with {code}")
            results.append(np.array(mat, np.float32).reshape(shape))
        return results

    return Opened(run, planes=True, facts={"on": name})


def _planes(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[0], shape[3], shape[1], shape[2]) if len(shape) == 4 else shape


def ncnn_files(graph: Graph) -> tuple[str, bytes, list[str], list[str]]:
    """Return the text, the weights, and the names of inputs and outputs, for a batch of 1."""
    if any(graph.types[name].shape[:1] != (1,) for name in (*graph.inputs, *graph.outputs)):
        raise Missing("ncnn does not support batches")
    file = NcnnFile()
    inputs = [file.layer("Input", [], []) for _ in graph.inputs]
    outputs = translate(graph, file, inputs)
    return file.text(), b"".join(file.weights), inputs, outputs


class NcnnFile:
    """The layers and weights written so far; a value is the name of its blob."""

    def __init__(self) -> None:
        self.layers: list[tuple[str, list[str], str, list[str]]] = []
        self.weights: list[bytes] = []
        self.flat: set[str] = set()  # values that are vectors, not images

    def layer(self, kind: str, inputs: Sequence[str], words: Sequence[str]) -> str:
        name = f"b{len(self.layers)}"
        self.layers.append((kind, list(inputs), name, list(words)))
        return name

    def text(self) -> str:
        """Return all layers, with a Split after each value with several consumers."""
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
        """Store an array; some layers expect a word before it that marks it as float."""
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
        """Add an activation; it is fused into a convolution, as ncnn's tools do."""
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
            turned = self.layer("Permute", [x], ["0=3"])  # channels last, as in the graph
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
