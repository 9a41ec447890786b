"""y[...,m,n] = sum over k of a[...,m,k] * b[...,k,n]; the leading axes broadcast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const, minimum, vector, widen
from fourfold.codegen.kernel import Kernel, Variable
from fourfold.codegen.view import View
from fourfold.ops.base import Case, Op, Types, Variant
from fourfold.ops.base.rules import FLOATS, require, require_kind, stretched, takes
from fourfold.types import TensorType

ROWS = 4  # rows of the result per work-item, four columns wide
GPU_GROUP, GPU_ROWS = 128, 32


@dataclass(frozen=True)
class BatchMatmul:
    """`transposed` means that the right side is b[...,n,k]."""

    transposed: bool = False


@takes("batch_matmul", 2)
def infer(attributes: BatchMatmul, a: TensorType, b: TensorType) -> Types:
    op = "batch_matmul"
    require_kind(op, FLOATS, a, b)
    require(min(a.rank, b.rank) >= 2, op, f"{a} and {b} are not both matrices")
    inner, columns = b.shape[-2:][::-1] if attributes.transposed else b.shape[-2:]
    fits = a.shape[-1] == inner and min(*a.shape[-2:], *b.shape[-2:]) > 0
    require(fits, op, f"{a} cannot be multiplied by {b}")
    batch = stretched(op, a.shape[:-2], b.shape[:-2])
    return (a.with_shape(*batch, a.shape[-2], columns),)


def reference(attributes: BatchMatmul, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    y: np.ndarray = a @ (np.swapaxes(b, -1, -2) if attributes.transposed else b)
    return y


def build(context: NodeContext) -> None:
    """Compute a tile of rows by four columns in accumulators, four values of k at a time."""
    assert isinstance(context.attributes, BatchMatmul)
    transposed = context.attributes.transposed
    kernel = context.kernel("batch_matmul" + ("_transposed" if transposed else ""))
    left, right, target = (
        context.read(kernel, 0),
        context.read(kernel, 1, "right"),
        context.write(kernel),
    )
    rows, slice_, batch = _tile_position(context, kernel)
    first, second = (_matrix(view, target, batch) for view in (left, right))
    sums = [kernel.variable(const(0.0, kernel.real, 4), "sum") for _ in rows]
    lines = [kernel.let(first + row, "line") for row in rows]
    factors = _by_rows if transposed else _by_columns
    read = factors(kernel, right, second, slice_)
    full_steps = context.input.channels // 4
    if full_steps:
        with kernel.loop(kernel.size("whole", full_steps), title="k") as k:
            _multiply(kernel, sums, [left.load(line, k) for line in lines], read(k, 4))
    if context.input.channels % 4:
        remainder = context.input.channels % 4
        k = kernel.size("whole", full_steps)
        _multiply(kernel, sums, [left.load(line, k) for line in lines], read(k, remainder))
    start = kernel.let(batch * target.axis(target.type.rank - 2), "start")
    for row, total in zip(rows, sums, strict=True):
        target.store(kernel.let(start + row, "pixel"), slice_, total)


def _tile_position(
    context: NodeContext, kernel: Kernel
) -> tuple[list[Expression], Expression, Expression]:
    """Return the rows of this work-item's tile, its four columns (a slice) and its matrix.

    Neighboring work-items take neighboring rows. Rows beyond the last repeat the last one.
    """
    rows = context.output.shape[-2]
    high = min(ROWS, rows)
    tiles = -(-rows // high)
    matrices = context.output.pixels // rows
    group = (1, 1)
    if not context.device.is_cpu:
        items = min(GPU_GROUP, context.device.max_work_group)
        wide = min(GPU_ROWS, items, 1 << (tiles * matrices - 1).bit_length())
        group = (wide, min(items // wide, 1 << (context.output.slices - 1).bit_length()))
    x, slice_ = kernel.ids(tiles * matrices, context.output.slices, local=group)
    step = kernel.size("tiles", tiles)
    tile, batch = kernel.let(x % step, "tile"), kernel.let(x // step, "batch")
    last = kernel.size("last_row", rows - 1)
    tile_rows = [tile + n * step for n in range(high)]
    if rows % high:
        tile_rows[-1] = minimum(tile_rows[-1], last)
        tile_rows[1:-1] = [minimum(row, last) for row in tile_rows[1:-1]]
    return [kernel.let(row, "row") for row in tile_rows], slice_, batch


def _matrix(view: View, target: View, batch: Expression) -> Expression:
    """Return the first pixel of the matrix that is combined with matrix `batch` of the result."""
    kernel, rank = view.kernel, target.type.rank
    coordinates: list[Expression] = []
    remainder = batch
    for axis in reversed(range(rank - 2)):
        size = target.axis(axis)
        coordinates.insert(0, kernel.let(remainder % size if axis else remainder, "at"))
        remainder = remainder // size
    own = coordinates[len(coordinates) - (view.type.rank - 2) :]
    sizes = view.type.shape[:-2]
    at = [const(0) if size == 1 else position for size, position in zip(sizes, own, strict=True)]
    return kernel.let(view.pixel([*at, const(0)]), "matrix")


Read = Callable[[Expression, int], list[Expression]]


def _by_columns(kernel: Kernel, right: View, first: Expression, slice_: Expression) -> Read:
    """Return a function that reads four columns of b for each k of a group of four."""

    def read(k: Expression, count: int) -> list[Expression]:
        row = kernel.let(first + k * 4, "place")
        return [right.load(row + lane, slice_) for lane in range(count)]

    return read


def _by_rows(kernel: Kernel, right: View, first: Expression, slice_: Expression) -> Read:
    """Return the same kind of function for a transposed b: it reads and transposes four rows."""
    last = kernel.size("last_column", right.type.shape[-2] - 1)
    exact = right.type.shape[-2] % 4 == 0
    columns = [slice_ * 4 + lane for lane in range(4)]
    if not exact:
        columns = [minimum(column, last) for column in columns]
    lines = [kernel.let(first + column, "column") for column in columns]

    def read(k: Expression, count: int) -> list[Expression]:
        rows = [right.load(line, k) for line in lines]
        return [vector(*(row.lane(lane) for row in rows)) for lane in range(count)]

    return read


def _multiply(
    kernel: Kernel, sums: list[Variable], values: list[Expression], factors: list[Expression]
) -> None:
    for lane, factor in enumerate(factors):
        for total, value in zip(sums, values, strict=True):
            kernel.add(total, widen(value.lane(lane), 4) * factor)


OP = Op(
    name="batch_matmul",
    attributes=BatchMatmul,
    infer=infer,
    reference=reference,
    heavy=True,
    variants=(Variant("tiled", build),),
    cases=(
        Case(("f32[1,1]", "f32[1,1]"), BatchMatmul()),
        Case(("f32[5,7]", "f32[7,3]"), BatchMatmul()),
        Case(("f32[5,7]", "f32[3,7]"), BatchMatmul(transposed=True)),
        Case(("f32[2,13,11]", "f32[2,11,29]"), BatchMatmul(), low=-1.0, high=1.0),
        Case(("f32[2,13,12]", "f32[2,29,12]"), BatchMatmul(transposed=True), low=-1.0, high=1.0),
        Case(("f32[2,1,3,8]", "f32[5,8,4]"), BatchMatmul(), low=-1.0, high=1.0),
        Case(("f32[3,2]", "f32[2,3,5,2]"), BatchMatmul(transposed=True)),
        Case(("f32[2,3,1,37]", "f32[2,1,37,5]"), BatchMatmul(), low=-1.0, high=1.0),
        Case(("f32[5,7]", "f32[7,3]"), BatchMatmul(), constants=(0,)),
    ),
)
