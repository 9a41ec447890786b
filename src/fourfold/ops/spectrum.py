"""y[k] = |sum of x[t] * exp(-2 pi i k t / size) over the last axis|, for k from 0 to size / 2."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const, convert, load, sqrt, widen
from fourfold.codegen.kernel import Variable
from fourfold.ops.base import Case, Op, Types, Variant
from fourfold.ops.base.rules import require, require_kind, takes
from fourfold.ops.kernels.grid import plain_grid
from fourfold.types import DType, TensorType

MAX_TABLE_NUMBERS = 1 << 24


@dataclass(frozen=True)
class Spectrum:
    """The length of the transform: shorter crops x, longer adds zeros."""

    size: int


@takes("spectrum", 1)
def infer(attributes: Spectrum, x: TensorType) -> Types:
    require_kind("spectrum", frozenset({DType.F32}), x)
    require(x.rank > 0 and x.channels > 0, "spectrum", f"{x} has no last axis")
    require(attributes.size > 0, "spectrum", f"a transform cannot be {attributes.size} long")
    return (x.with_shape(*x.shape[:-1], attributes.size // 2 + 1),)


def reference(attributes: Spectrum, x: np.ndarray) -> np.ndarray:
    return np.abs(np.fft.rfft(x, attributes.size)).astype(np.float32)


def build(context: NodeContext) -> None:
    """Compute four frequencies at once with a table of cosines and sines."""
    assert isinstance(context.attributes, Spectrum)
    kernel = context.kernel("spectrum")
    view, target = context.read(kernel, 0), context.write(kernel)
    length = min(context.input.channels, context.attributes.size)
    table = context.packed(kernel, "waves", waves(context.attributes.size, length))
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        zero = const(0.0, "float", 4)
        sums = [kernel.variable(zero, title) for title in ("real", "imaginary")]
        steps = kernel.size("steps", length)
        with kernel.loop(steps, title="t") as t:
            x = kernel.let(widen(convert(view.element(pixel, t), "float"), 4), "x")
            for part, total in enumerate(sums):
                entry = (slice_ * steps + t) * 2 + part
                kernel.set(total, total + x * load(table, entry, "float", 4))
        target.store(pixel, slice_, convert(_length(*sums), view.kind))


def _length(real: Variable, imaginary: Variable) -> Expression:
    return sqrt(real * real + imaginary * imaginary)


def refuses(context: NodeContext) -> str | None:
    assert isinstance(context.attributes, Spectrum)
    numbers = 2 * context.output.channels * min(context.input.channels, context.attributes.size)
    too_large = numbers > MAX_TABLE_NUMBERS
    return f"its table of {numbers} numbers would be too large" if too_large else None


def waves(size: int, length: int) -> np.ndarray:
    """Return [slices of frequencies][time][cosine, sine][4], correctly rounded to float32."""
    slices = -(-(size // 2 + 1) // 4)
    turns = np.outer(np.arange(slices * 4), np.arange(length)) % size * (2 * np.pi / size)
    both = np.stack([np.cos(turns), np.sin(turns)], axis=2).reshape(slices, 4, length, 2)
    return both.transpose(0, 2, 3, 1).astype(np.float32)


OP = Op(
    name="spectrum",
    attributes=Spectrum,
    infer=infer,
    reference=reference,
    heavy=True,
    variants=(Variant("waves", build, refuses),),
    cases=(
        Case(("f32[7]",), Spectrum(7)),
        Case(("f32[3,13]",), Spectrum(16)),
        Case(("f32[2,5,37]",), Spectrum(29)),
        Case(("f32[3,1,512]",), Spectrum(512)),
        Case(("f32[2,1]",), Spectrum(1)),
    ),
)
