"""y[c] = x[c] / (bias + alpha * sum of squares of x[c-radius] to x[c+radius]) ** beta."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import const, maximum, minimum, power, vector
from fourfold.ops.base import Case, Op, Types, Variant
from fourfold.ops.base.rules import FLOATS, require, require_kind, takes
from fourfold.ops.kernels.grid import plain_grid
from fourfold.types import TensorType


@dataclass(frozen=True)
class LocalResponse:
    """The number of channels on either side, and the coefficients of the formula."""

    radius: int
    bias: float = 1.0
    alpha: float = 1.0
    beta: float = 0.5


@takes("local_response", 1)
def infer(attributes: LocalResponse, x: TensorType) -> Types:
    require_kind("local_response", FLOATS, x)
    require(x.rank > 0, "local_response", "a scalar has no channels")
    require(attributes.radius >= 0, "local_response", "the radius must not be negative")
    return (x,)


def reference(attributes: LocalResponse, x: np.ndarray) -> np.ndarray:
    radius, count = min(attributes.radius, x.shape[-1]), x.shape[-1]
    squares = np.pad(x * x, [(0, 0)] * (x.ndim - 1) + [(radius, radius)])
    total = sum(squares[..., n : n + count] for n in range(2 * radius + 1))
    scale = attributes.bias + attributes.alpha * np.asarray(total, x.dtype)
    return np.asarray(x * scale**-attributes.beta, x.dtype)


def build(context: NodeContext) -> None:
    """Each lane walks over its neighboring channels."""
    attributes = context.attributes
    assert isinstance(attributes, LocalResponse)
    kernel = context.kernel("local_response", sums=True)
    view, target = context.read(kernel, 0), context.write(kernel)
    radius = min(attributes.radius, context.input.channels)
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        lanes = []
        for lane in range(min(4, context.input.channels)):
            channel = kernel.let(slice_ * 4 + lane, "channel")
            total = kernel.variable(const(0.0, view.kind), "total")
            first = kernel.let(maximum(channel - radius, const(0)), "first")
            stop = kernel.let(minimum(channel + (radius + 1), view.channels), "stop")
            with kernel.loop(stop, first, title="i") as i:
                value = kernel.let(view.element(pixel, i), "x")
                kernel.add(total, value * value)
            lanes.append(power(total * attributes.alpha + attributes.bias, -attributes.beta))
        lanes += [const(0.0, view.kind)] * (4 - len(lanes))
        target.store(pixel, slice_, view.load(pixel, slice_) * vector(*lanes))


OP = Op(
    name="local_response",
    attributes=LocalResponse,
    infer=infer,
    reference=reference,
    heavy=True,
    variants=(Variant("walk", build),),
    cases=(
        Case(("f32[1,1,1,1]",), LocalResponse(2)),
        Case(("f32[2,5,7,13]",), LocalResponse(3, 1.0, 0.1, 0.75)),
        Case(("f32[2,5,7,3]",), LocalResponse(20, 2.0, 1.0, 0.5)),
        Case(("f32[3,29]",), LocalResponse(5, 1.0, 2.0, 1.5)),
    ),
)
