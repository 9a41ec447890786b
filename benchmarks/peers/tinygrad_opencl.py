"""tinygrad with the same OpenCL driver, with kernels captured by TinyJit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fourfold.ops.base.window import Padding, Pair, Pool2d
from fourfold.types import Shape
from peers import Missing, Opened, Task, planes
from peers.translate import Constant, Convolution, translate


def open_peer(task: Task) -> Opened:
    os.environ["DEV"] = "CL"
    find_loader()
    try:
        from tinygrad import Device, Tensor, TinyJit, dtypes
    except ImportError as error:
        raise Missing("tinygrad is not installed") from error
    dtype = dtypes.half if task.half else dtypes.float
    engine, arrays = Engine(Tensor, dtype), [planes(one) for one in task.arrays()]

    def forward(*inputs: Any) -> list[Any]:
        results = translate(task.graph, engine, [one.cast(dtype) for one in inputs])
        done = [one.float().contiguous() for one in results]
        Tensor.realize(*done)
        return done

    jitted = TinyJit(forward)

    def run() -> list[np.ndarray]:
        return [one.numpy() for one in jitted(*(Tensor(one).realize() for one in arrays))]

    held = [Tensor(one).realize() for one in arrays]

    def device() -> None:
        jitted(*held)
        Device[Device.DEFAULT].synchronize()

    return Opened(run, device, planes=True, facts={"on": Device.DEFAULT})


def find_loader() -> None:
    """Let tinygrad load the OpenCL library that is bundled with PyOpenCL."""
    try:
        import pyopencl
    except ImportError:
        return
    libraries = sorted(Path(pyopencl.__file__).parent.glob("**/libOpenCL*.so*"))
    if libraries:
        os.environ.setdefault("OPENCL_PATH", str(libraries[0]))


class Engine:
    """Runs the network with tinygrad methods; constants are uploaded once."""

    def __init__(self, tensor: Any, dtype: Any) -> None:
        self.tensor, self.dtype = tensor, dtype
        self.kept: dict[str, Any] = {}

    def constant(self, constant: Constant | None) -> Any:
        if constant is None:
            return None
        if constant.name not in self.kept:
            tensor = self.tensor(np.array(constant.array))
            self.kept[constant.name] = tensor.cast(self.dtype).realize()
        return self.kept[constant.name]

    def convolve(self, x: Any, how: Convolution) -> Any:
        return x.conv2d(
            self.constant(how.weights),
            self.constant(how.bias),
            groups=how.groups,
            stride=how.stride,
            dilation=how.dilation,
            padding=_pads(how.padding),
        )

    def connect(self, x: Any, weights: Constant, bias: Constant | None) -> Any:
        y = x @ self.constant(weights).transpose()
        return y if bias is None else y + self.constant(bias)

    def max_pool(self, x: Any, pool: Pool2d) -> Any:
        return x.max_pool2d(pool.filter, pool.stride, padding=_pads(pool.padding))

    def average_pool(self, x: Any, pool: Pool2d) -> Any:
        return x.avg_pool2d(pool.filter, pool.stride)

    def resize(self, x: Any, size: Pair, align_corners: bool) -> Any:
        if x.shape[2:] == (1, 1):
            return x.expand(*x.shape[:2], *size)
        return x.interpolate(size, mode="linear", align_corners=align_corners)

    def mean(self, x: Any) -> Any:
        return x.mean((2, 3), keepdim=True)

    def clip(self, x: Any, most: float | None) -> Any:
        return x.relu() if most is None else x.clip(0, most)

    def prelu(self, x: Any, slope: Constant) -> Any:
        factor = self.constant(slope).reshape(1, -1, 1, 1)
        return (x < 0).where(x * factor, x)

    def logistic(self, x: Any) -> Any:
        return x.sigmoid()

    def softmax(self, x: Any) -> Any:
        return x.float().softmax(-1)

    def add(self, a: Any, b: Any) -> Any:
        return a + b

    def pad(self, x: Any, around: Sequence[tuple[int, int]]) -> Any:
        return x.pad(tuple(around))

    def concat(self, parts: Sequence[Any], axis: int) -> Any:
        return parts[0].cat(*parts[1:], dim=axis)

    def reshape(self, x: Any, before: Shape, after: Shape) -> Any:
        x = (x.permute(0, 2, 3, 1) if len(before) == 4 else x).reshape(after)
        return x.permute(0, 3, 1, 2) if len(after) == 4 else x


def _pads(padding: Padding) -> tuple[int, ...]:
    return (padding.left, padding.right, padding.top, padding.bottom)
