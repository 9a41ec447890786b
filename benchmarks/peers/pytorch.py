"""PyTorch: a CUDA graph, in fp16 on request, or plain calls on the CPU.

Tensors are channels-last. Asymmetric padding costs PyTorch an extra kernel; timed runs use
symmetric padding, which is the same work without it. The outputs to compare come from a run with
the exact padding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fourfold.ops.base.window import Padding, Pair, Pool2d
from fourfold.types import Shape
from peers import MEAN, STD, Missing, Opened, Task, picture_of, planes
from peers.translate import Constant, Convolution, translate

WARM_UP = 5


def open_peer(task: Task) -> Opened:
    try:
        import torch
    except ImportError as error:
        raise Missing("torch is not installed") from error
    if not torch.cuda.is_available():
        torch.set_num_threads(task.threads)
        return _on_cpu(torch, task)
    return _on_cuda(torch, task)


def _on_cpu(torch: Any, task: Task) -> Opened:
    engine = Engine(torch, "cpu", torch.float32, exact=True)
    inputs = [engine.array(planes(one)) for one in task.arrays()]

    def run() -> list[np.ndarray]:
        with torch.inference_mode():
            return [one.numpy() for one in translate(task.graph, engine, inputs)]

    return Opened(run, planes=True, facts={"torch": torch.__version__, "on": "cpu"})


def _on_cuda(torch: Any, task: Task) -> Opened:
    torch.backends.cudnn.benchmark = True
    dtype = torch.float16 if task.half else torch.float32
    engine = Engine(torch, "cuda", dtype, exact=False)
    hosts = [torch.from_numpy(planes(one)).pin_memory() for one in task.arrays()]
    inputs = [engine.array(host) for host in hosts]
    captured = Captured(torch, engine, lambda: translate(task.graph, engine, inputs))

    def run() -> list[np.ndarray]:
        for value, host in zip(inputs, hosts, strict=True):
            value.copy_(host, non_blocking=True)
        return captured.results()

    def device() -> None:
        captured.graph.replay()
        torch.cuda.synchronize()

    def check() -> list[np.ndarray]:
        exact = Engine(torch, "cuda", dtype, exact=True)
        with torch.inference_mode():
            results = translate(task.graph, exact, [exact.array(host) for host in hosts])
        return [one.float().cpu().numpy() for one in results]

    facts = {"torch": torch.__version__, "on": torch.cuda.get_device_name()}
    # A replay uses tensors in place.
    ways = {"bytes": lambda: _from_bytes(torch, task), "tensors": lambda: device}
    return Opened(run, device, check, True, facts, {**ways, "torch": lambda: device})


def _from_bytes(torch: Any, task: Task) -> Callable[[], object]:
    """Run on an image as bytes, normalized on the device within the graph."""
    engine = Engine(torch, "cuda", torch.float16 if task.half else torch.float32, exact=False)
    host = torch.from_numpy(picture_of(task)).pin_memory()
    pixels = host.to("cuda")

    def forward() -> list[Any]:
        scaled = (pixels.to(engine.dtype) - MEAN) / STD
        return translate(task.graph, engine, [scaled.permute(0, 3, 1, 2)])

    captured = Captured(torch, engine, forward)

    def run() -> list[np.ndarray]:
        pixels.copy_(host, non_blocking=True)
        return captured.results()

    return run


class Captured:
    """A CUDA graph of the network and its output tensors. Holds the engine, because replays read
    the constants that it owns.
    """

    def __init__(self, torch: Any, engine: Engine, forward: Callable[[], list[Any]]) -> None:
        self._engine = engine
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), torch.inference_mode():
            for _ in range(WARM_UP):
                forward()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.inference_mode(), torch.cuda.graph(self.graph):
            self.outputs = forward()

    def results(self) -> list[np.ndarray]:
        self.graph.replay()
        return [one.float().cpu().numpy() for one in self.outputs]


class Engine:
    """Runs the network with torch functions; constants are uploaded once."""

    def __init__(self, torch: Any, device: str, dtype: Any, exact: bool) -> None:
        self.torch, self.functions = torch, torch.nn.functional
        self.device, self.dtype, self.exact = device, dtype, exact
        self.kept: dict[str, Any] = {}

    def array(self, array: Any) -> Any:
        tensor = self.torch.as_tensor(np.array(array)).to(self.device, self.dtype)
        last = self.torch.channels_last
        return tensor.contiguous(memory_format=last) if tensor.ndim == 4 else tensor

    def constant(self, constant: Constant | None) -> Any:
        if constant is None:
            return None
        if constant.name not in self.kept:
            self.kept[constant.name] = self.array(constant.array)
        return self.kept[constant.name]

    def padded(self, x: Any, padding: Padding, value: float = 0.0) -> tuple[Any, Pair]:
        """Return the padded input, and the padding that the next function has to add."""
        even = padding.top == padding.bottom and padding.left == padding.right
        if even or not self.exact:
            return x, (padding.bottom, padding.right)
        around = (padding.left, padding.right, padding.top, padding.bottom)
        return self.functions.pad(x, around, value=value), (0, 0)

    def convolve(self, x: Any, how: Convolution) -> Any:
        x, padding = self.padded(x, how.padding)
        weights, bias = self.constant(how.weights), self.constant(how.bias)
        shape = (how.stride, padding, how.dilation, how.groups)
        return self.functions.conv2d(x, weights, bias, *shape)

    def connect(self, x: Any, weights: Constant, bias: Constant | None) -> Any:
        return self.functions.linear(x, self.constant(weights), self.constant(bias))

    def max_pool(self, x: Any, pool: Pool2d) -> Any:
        x, padding = self.padded(x, pool.padding, -float("inf"))
        return self.functions.max_pool2d(x, pool.filter, pool.stride, padding)

    def average_pool(self, x: Any, pool: Pool2d) -> Any:
        return self.functions.avg_pool2d(x, pool.filter, pool.stride)

    def resize(self, x: Any, size: Pair, align_corners: bool) -> Any:
        return self.functions.interpolate(x, size, mode="bilinear", align_corners=align_corners)

    def mean(self, x: Any) -> Any:
        return x.mean((2, 3), keepdim=True)

    def clip(self, x: Any, most: float | None) -> Any:
        return self.functions.relu(x) if most is None else self.functions.hardtanh(x, 0.0, most)

    def prelu(self, x: Any, slope: Constant) -> Any:
        return self.functions.prelu(x, self.constant(slope))

    def logistic(self, x: Any) -> Any:
        return self.torch.sigmoid(x)

    def softmax(self, x: Any) -> Any:
        return self.functions.softmax(x, -1)

    def add(self, a: Any, b: Any) -> Any:
        return a + b

    def pad(self, x: Any, around: Sequence[tuple[int, int]]) -> Any:
        return self.functions.pad(x, [size for pair in reversed(around) for size in pair])

    def concat(self, parts: Sequence[Any], axis: int) -> Any:
        return self.torch.cat(list(parts), axis)

    def reshape(self, x: Any, before: Shape, after: Shape) -> Any:
        x = (x.permute(0, 2, 3, 1) if len(before) == 4 else x).reshape(after)
        return x.permute(0, 3, 1, 2) if len(after) == 4 else x
