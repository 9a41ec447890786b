"""y[r,i,j] = mean, or maximum, of sample points in cell (i, j) of region r of an image.

The row of a region is left, top, right, bottom; the indices select its image. Each sample point is
interpolated between four elements of x.

A cell has at most `MAX_SAMPLES` sample points for each element of an axis of x, so that no region
makes a kernel run forever. Only regions that are much larger than their image have fewer points for
it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, ceil, const, convert, maximum, minimum, where
from fourfold.codegen.kernel import Kernel
from fourfold.ops.base import Case, IndexRange, Op, Types, Variant
from fourfold.ops.base.rules import FLOATS, INDICES, require, require_kind, require_rank, takes
from fourfold.ops.base.window import Pair
from fourfold.ops.kernels.grid import plain_grid
from fourfold.ops.kernels.indexing import bound_index, bound_indices
from fourfold.ops.kernels.reduce import start_value
from fourfold.types import TensorType

MAX_SAMPLES = 4


@dataclass(frozen=True)
class RoiAlign:
    """The number of cells of a region, and how cells are sampled.

    samples     sample points per cell along an axis; 0: about one for each element
    scale       factor on the corners of regions
    half_pixel  the center of an element is half an element after its start
    largest     take the maximum of a cell instead of the mean
    """

    size: Pair
    samples: int = 0
    scale: float = 1.0
    half_pixel: bool = True
    largest: bool = False


@takes("roi_align", 3)
def infer(attributes: RoiAlign, x: TensorType, regions: TensorType, images: TensorType) -> Types:
    op = "roi_align"
    require_kind(op, FLOATS, x, regions)
    require_kind(op, INDICES, images)
    require_rank(op, "the input", x, 4)
    fits = regions.rank == 2 and regions.channels == 4 and images.shape == regions.shape[:1]
    require(fits, op, f"{regions} and {images} do not describe regions")
    positive = min(*attributes.size, *x.shape) > 0 and attributes.samples >= 0
    require(positive, op, f"{attributes} cannot be applied to {x}")
    return (x.with_shape(regions.shape[0], *attributes.size, x.channels),)


def reference(
    attributes: RoiAlign, x: np.ndarray, regions: np.ndarray, images: np.ndarray
) -> np.ndarray:
    y = np.zeros((len(regions), *attributes.size, x.shape[-1]), x.dtype)
    images = bound_indices(images, len(x))
    for number, (region, image) in enumerate(zip(regions, images, strict=True)):
        axes = [_sample_points(attributes, region, axis, x.shape[1 + axis]) for axis in (0, 1)]
        (down, up, under), (along, right, beside) = axes
        for i, j in np.ndindex(attributes.size):
            parts = [
                x[image, row[i]][:, column[j]] * np.multiply.outer(near[i], weight[j])[..., None]
                for row, near in ((down, under[0]), (up, under[1]))
                for column, weight in ((along, beside[0]), (right, beside[1]))
            ]
            if parts[0].size:
                mean = np.sum(parts, axis=0).mean(axis=(0, 1))
                y[number, i, j] = np.max(parts, axis=(0, 1, 2)) if attributes.largest else mean
    return y


_Axis = tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]


def _sample_points(attributes: RoiAlign, region: np.ndarray, axis: int, size: int) -> _Axis:
    """Return, by cell and sample point, the elements before and after, and their weights."""
    shift, scale = (0.5 if attributes.half_pixel else 0.0), np.float32(attributes.scale)
    start, end = region[1 - axis] * scale - shift, region[3 - axis] * scale - shift
    length = end - start if attributes.half_pixel else max(end - start, np.float32(1))
    cell = length / np.float32(attributes.size[axis])
    most = MAX_SAMPLES * size
    # NaN and infinity are not in the range of any integer.
    count = attributes.samples or math.ceil(np.clip(np.nan_to_num(cell, nan=0), 0, most))
    steps = (np.arange(count, dtype=np.float32) + np.float32(0.5)) / np.float32(max(count, 1))
    cells = np.arange(attributes.size[axis], dtype=np.float32)[:, None]
    position = start + (cells + steps) * cell
    inside = (position >= -1) & (position <= size)
    position = np.clip(np.nan_to_num(position, nan=0), 0, size - 1)
    below = np.floor(position)
    fraction = position - below
    after = np.minimum(below + 1, size - 1).astype(np.int64)
    return below.astype(np.int64), after, ((1 - fraction) * inside, fraction * inside)


def valid_images(
    attributes: RoiAlign, x: TensorType, regions: TensorType, images: TensorType
) -> IndexRange:
    return IndexRange(2, (0,), (x.shape[0] - 1,))


class _KernelAxis:
    """One axis of the cell that a work-item computes: its sample points in order."""

    def __init__(
        self,
        kernel: Kernel,
        attributes: RoiAlign,
        corners: tuple[Expression, Expression],
        at: Expression,
        axis: int,
        size: int,
    ) -> None:
        shift = 0.5 if attributes.half_pixel else 0.0
        start, end = (corner * attributes.scale - shift for corner in corners)
        length = end - start if attributes.half_pixel else maximum(end - start, 1.0)
        self.kernel = kernel
        self.cell = kernel.let(length / float(attributes.size[axis]), "cell")
        self.start = kernel.let(start + convert(at, "float") * self.cell, "start")
        samples = attributes.samples
        # With this order of operands, NaN becomes 0.
        bounded = minimum(maximum(0.0, self.cell), float(MAX_SAMPLES * size))
        count = const(samples) if samples else convert(ceil(bounded), "int")
        self.count, self.size = kernel.let(count, "count"), size

    def taps(self, step: Expression) -> list[tuple[Expression, Expression]]:
        """Return the two elements around a sample point, and their weights."""
        size = self.size
        kernel, count = self.kernel, convert(self.count, "float")
        position = kernel.let(
            self.start + (convert(step, "float") + 0.5) / count * self.cell, "place"
        )
        inside = (position >= -1.0) & (position <= float(size))
        # With this order of operands, NaN becomes the first position.
        kept = kernel.let(minimum(maximum(0.0, position), size - 1.0), "kept")
        below = kernel.let(convert(kept, "int"), "below")
        fraction = kernel.let(kept - convert(below, "float"), "way")
        after = kernel.let(minimum(below + 1, size - 1), "after")
        weight_before, weight_after = (
            kernel.let(where(inside, one, 0.0), "near") for one in (1.0 - fraction, fraction)
        )
        return [(below, weight_before), (after, weight_after)]


def build(context: NodeContext) -> None:
    """Each cell walks over its sample points."""
    attributes = context.attributes
    assert isinstance(attributes, RoiAlign)
    kernel = context.kernel("roi_align")
    view, regions = context.read(kernel, 0), context.read(kernel, 1, "regions")
    images, target = context.read(kernel, 2, "images"), context.write(kernel)
    start = float("-inf") if attributes.largest else 0.0
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        region, *cell = target.coordinates(pixel)
        region = kernel.let(region, "region")
        corners = [convert(regions.lane(region, 0, n), "float") for n in range(4)]
        axes = [
            _KernelAxis(
                kernel,
                attributes,
                corners=(corners[1 - n], corners[3 - n]),
                at=cell[n],
                axis=n,
                size=context.input.shape[1 + n],
            )
            for n in (0, 1)
        ]
        image = bound_index(view, 0, images.element(const(0), region))
        total = kernel.variable(start_value(view.kind, start), "total")
        with (
            kernel.loop(axes[0].count, title="down") as down,
            kernel.loop(axes[1].count, title="across") as across,
        ):
            for row, near in axes[0].taps(down):
                for column, weight in axes[1].taps(across):
                    value = view.load(view.pixel([image, row, column]), slice_)
                    value = value * convert(near * weight, view.kind)
                    kernel.set(
                        total, maximum(total, value) if attributes.largest else total + value
                    )
        target.store(pixel, slice_, _finished(attributes, total, axes[0].count * axes[1].count))


def _finished(attributes: RoiAlign, total: Expression, count: Expression) -> Expression:
    """Return the mean or the maximum; zero for a region without sample points."""
    if attributes.largest:
        return where(count > 0, total, const(0.0, total.kind, 4))
    return total / convert(maximum(count, 1), total.kind)


_REGIONS = ("f32[5,4]", "i32[5]")
OP = Op(
    name="roi_align",
    attributes=RoiAlign,
    infer=infer,
    reference=reference,
    indices=valid_images,
    heavy=True,
    variants=(Variant("cells", build),),
    cases=(
        # Range of the corners and of the image numbers.
        Case(("f32[2,7,11,3]", *_REGIONS), RoiAlign((2, 3), 2), low=0, high=1),
        Case(("f32[2,7,11,13]", *_REGIONS), RoiAlign((3, 2), 0, 5.5), low=0, high=1),
        Case(
            ("f32[2,5,5,4]", *_REGIONS), RoiAlign((2, 2), 2, 9.0, half_pixel=False), low=0, high=1
        ),
        Case(
            ("f32[2,5,5,8]", *_REGIONS),
            RoiAlign((2, 2), 2, 4.0, half_pixel=False, largest=True),
            low=0,
            high=1,
        ),
        Case(("f32[2,7,11,3]", *_REGIONS), RoiAlign((2, 2), 0, 5.5, largest=True), low=0, high=1),
    ),
)
