"""y[..., c] = (pixel[byte of c] - zero of c) * scale of c, for pixels of a resized frame.

The frame of bytes is cropped, resized and placed in the model's input picture. Camera frames (YUV)
are converted first: there the bytes 0, 1 and 2 are red, green and blue.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import (
    Expression,
    Pointer,
    const,
    convert,
    load,
    maximum,
    minimum,
    vector,
)
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.location import Channel
from fourfold.codegen.view import View
from fourfold.ops.base import Case, Op, Types, Variant
from fourfold.ops.base.rules import require, require_kind, takes
from fourfold.ops.kernels.grid import plain_grid
from fourfold.processing.pixels.colors import MATRICES, ORDERS, YUV_ORDERS, frame_size, pixel_reader
from fourfold.processing.pixels.frame_fit import (
    RESIZES,
    FrameFit,
    fit_frame,
    resize_frames,
    tap_tables,
)
from fourfold.processing.resampling import TapTable
from fourfold.types import DType, TensorType

MAX_UNROLLED_TAPS = 2  # taps along an axis; more are a loop over a parameter


@dataclass(frozen=True)
class Frame:
    """The byte order of the frame, the channels of the picture, and how the frame is fitted.

    `fill` is the color of the bars in the order of the frame's bytes, from 0 to 255. `matrix` is
    the YUV conversion.
    """

    order: str
    channels: tuple[Channel, ...]
    fit: FrameFit
    resize: str = "bilinear"
    fill: tuple[float, ...] = (0.0, 0.0, 0.0)
    matrix: str = "bt601"


@takes("frame", 1)
def infer(attributes: Frame, x: TensorType) -> Types:
    op, fit, channels = "frame", attributes.fit, attributes.channels
    require_kind(op, frozenset({DType.U8}), x)
    supported = attributes.order in (*ORDERS, *YUV_ORDERS) and attributes.resize in RESIZES
    require(
        supported and attributes.matrix in MATRICES,
        op,
        f"{attributes} has an unknown order, resize or matrix",
    )
    size = frame_size(attributes.order, x.shape)
    require(size is not None, op, f"{x} does not hold frames in {attributes.order}")
    assert size is not None
    bottom_right = (fit.box[0] + fit.box[2], fit.box[1] + fit.box[3])
    inside = min(fit.box) >= 0 and bottom_right[0] <= size[0] and bottom_right[1] <= size[1]
    require(
        inside and min(fit.box[2:]) > 0, op, f"the box {fit.box} is not inside a frame of {size}"
    )
    around = [fit.target[axis] - fit.size[axis] - fit.offset[axis] for axis in (0, 1)]
    placed = min(*around, *fit.offset) >= 0 and min(fit.size) > 0
    require(placed, op, f"{fit.size} at {fit.offset} is not inside {fit.target}")
    count = 3 if attributes.order in YUV_ORDERS else x.channels
    valid = 0 < len(channels) <= 3 and all(0 <= one.byte < count for one in channels)
    require(
        valid and len(attributes.fill) == count,
        op,
        f"pixels of {x} do not have the bytes of {channels}",
    )
    return (TensorType(DType.F32, (x.shape[0], *fit.target, len(channels))),)


def reference(attributes: Frame, x: np.ndarray) -> np.ndarray:
    read = pixel_reader(x, attributes.order, attributes.matrix)
    picture = resize_frames(read, attributes.fit, attributes.resize, attributes.fill)
    bytes_, zeros, scales = zip(*attributes.channels, strict=True)
    distance = picture[..., list(bytes_)] - np.array(zeros, np.float32)
    return np.asarray(distance * np.array(scales, np.float32))


class _AxisTaps:
    """Tables of the frame's rows, or columns, that contribute to one of the picture."""

    def __init__(self, context: NodeContext, kernel: Kernel, title: str, table: TapTable) -> None:
        count = table.weights.shape[1]
        self.kernel = kernel
        self.count = (
            const(count) if count <= MAX_UNROLLED_TAPS else kernel.size(f"{title}_taps", count)
        )
        self.indices = context.packed(kernel, f"{title}_from", table.indices)
        self.weights: Pointer | None = None
        if count > 1:
            self.weights = context.packed(kernel, f"{title}_weights", table.weights)

    def tap(self, at: Expression, tap: Expression) -> tuple[Expression, Expression]:
        """Return the index and the weight of a tap."""
        entry = self.kernel.let(at * self.count + tap, "place")
        index = self.kernel.let(load(self.indices, entry, "int"), "from")
        if self.weights is None:
            return index, const(1.0, "float")
        return index, self.kernel.let(load(self.weights, entry, "float"), "weight")


class _PackedPixels:
    """Pixels with contiguous channels."""

    def __init__(self, view: View, attributes: Frame) -> None:
        self._view = view

    def load(self, image: Expression, row: Expression, column: Expression) -> Expression:
        pixel = self._view.pixel([image, row, column])
        return convert(self._view.load(pixel, const(0)), "float")


class _YuvPixels:
    """Pixels of a camera frame: each has its luma, and 2x2 share their chroma."""

    def __init__(self, view: View, attributes: Frame) -> None:
        self._view, self._order = view, attributes.order
        kernel, (_, rows, width) = view.kernel, view.type.shape
        self._matrix = MATRICES[attributes.matrix]
        self._width = kernel.size("width", width)
        self._height = kernel.size("height", rows // 3 * 2)
        self._half_width = kernel.size("half_width", width // 2)
        self._plane = kernel.size("plane", rows // 3 * (width // 2))

    def load(self, image: Expression, row: Expression, column: Expression) -> Expression:
        """Return (red, green, blue, 0), from 0 to 255."""
        matrix, let = self._matrix, self._view.kernel.let
        u_offset, v_offset = self._chroma_offsets(row, column)
        y = let((self._byte(image, row * self._width + column) - matrix.black) * matrix.luma, "y")
        u, v = (let(self._byte(image, offset) - 128.0, "uv") for offset in (u_offset, v_offset))
        red, blue = y + v * matrix.red_v, y + u * matrix.blue_u
        green = y + u * matrix.green_u + v * matrix.green_v
        rgb = let(vector(red, green, blue, const(0.0, "float")), "rgb")
        return minimum(maximum(rgb, 0.0), 255.0)

    def _chroma_offsets(self, row: Expression, column: Expression) -> tuple[Expression, Expression]:
        """Return the offsets of the bytes of U and V from the start of the frame."""
        if self._order == "yuv420":
            colors = self._height * self._width + row // 2 * self._half_width + column // 2
            first = self._view.kernel.let(colors, "first")
            return first, first + self._plane
        pairs = (self._height + row // 2) * self._width + column // 2 * 2
        first = self._view.kernel.let(pairs, "first")
        return (first, first + 1) if self._order == "nv12" else (first + 1, first)

    def _byte(self, image: Expression, offset: Expression) -> Expression:
        start = self._view.pixel([image, const(0)])
        return convert(self._view.element(start, offset), "float")


def build(context: NodeContext) -> None:
    """Compute each pixel of the picture as a weighted sum of pixels of the frame."""
    attributes = context.attributes
    assert isinstance(attributes, Frame)
    kernel, fit = context.kernel("frame"), attributes.fit
    view, target = context.read(kernel, 0), context.write(kernel)
    tables = zip(("row", "column"), tap_tables(fit, attributes.resize), strict=True)
    rows, columns = (_AxisTaps(context, kernel, *one) for one in tables)
    kind = _YuvPixels if attributes.order in YUV_ORDERS else _PackedPixels
    pixels, fill = kind(view, attributes), _four(kernel, "fill", attributes.fill)
    zeros = _four(kernel, "zero", [one.zero for one in attributes.channels])
    scales = _four(kernel, "scale", [one.scale for one in attributes.channels])
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        image, y, x = target.coordinates(pixel)
        y, x, inside = _frame_position(kernel, fit, y, x)
        total = kernel.variable(vector(*fill), "total")
        with kernel.when(inside):
            kernel.set(total, const(0.0, "float", 4))
            with kernel.loop(rows.count, title="down") as down:
                row, height = rows.tap(y, down)
                line = kernel.variable(const(0.0, "float", 4), "line")
                with kernel.loop(columns.count, title="along") as along:
                    column, width = columns.tap(x, along)
                    kernel.add(line, pixels.load(image, row, column) * width)
                kernel.add(total, line * height)
        lanes = [const(0.0, kernel.real)] * 4
        for lane, one in enumerate(attributes.channels):
            scaled = (total.lane(one.byte) - zeros[lane]) * scales[lane]
            lanes[lane] = convert(scaled, kernel.real)
        target.store(pixel, slice_, vector(*lanes))


def _frame_position(
    kernel: Kernel, fit: FrameFit, y: Expression, x: Expression
) -> tuple[Expression, Expression, Expression]:
    """Return the row and column of a pixel in the resized frame, and whether it is not in a bar."""
    positions, inside = [], const(True)
    for axis, (title, at) in enumerate((("row", y), ("column", x))):
        at = kernel.let(at - kernel.size(f"{title}_offset", fit.offset[axis]), title)
        if fit.size[axis] != fit.target[axis]:
            inside = inside & (at >= 0) & (at < kernel.size(f"{title}s", fit.size[axis]))
        positions.append(at)
    return positions[0], positions[1], inside


def _four(kernel: Kernel, title: str, numbers: tuple[float, ...] | list[float]) -> list[Expression]:
    """Return four expressions, one parameter per distinct number, padded with zeros."""
    parameters = {one: kernel.number(title, one) for one in dict.fromkeys(numbers)}
    return [parameters[one] for one in numbers] + [const(0.0, "float")] * (4 - len(numbers))


_RGB = (Channel(2, 123.675, 1 / 58.395), Channel(1, 116.28, 1 / 57.12), Channel(0, 103.53, 0.25))
_GRAY = (Channel(0, 127.5, 1 / 127.5),)
_FILL = (7.0, 114.0, 200.5)


_FILLS = {"gray": (9.0,), "rgba": (*_FILL, 0.0), "bgra": (*_FILL, 0.0)}


def _case(
    x: str, order: str, fit: FrameFit, resize: str = "bilinear", matrix: str = "bt601"
) -> Case:
    channels, fill = _GRAY if order == "gray" else _RGB, _FILLS.get(order, _FILL)
    return Case((x,), Frame(order, channels, fit, resize, fill, matrix), low=0, high=255)


OP = Op(
    name="frame",
    attributes=Frame,
    infer=infer,
    reference=reference,
    heavy=True,
    variants=(Variant("taps", build),),
    cases=(
        _case("u8[1,1,1,1]", "gray", fit_frame((1, 1), (3, 5), "stretch")),
        _case("u8[2,11,13,3]", "rgb", fit_frame((11, 13), (5, 7), "stretch")),
        _case("u8[1,5,7,3]", "bgr", fit_frame((5, 7), (11, 13), "letterbox")),
        _case("u8[1,11,13,4]", "rgba", fit_frame((11, 13), (7, 5), "crop"), "nearest"),
        _case("u8[2,23,17,4]", "bgra", fit_frame((23, 17), (5, 7), "letterbox"), "area"),
        _case("u8[1,13,29,3]", "rgb", fit_frame((13, 29), (3, 5), "crop", (1, 2, 11, 23)), "area"),
        _case("u8[1,7,5,3]", "rgb", fit_frame((7, 5), (11, 7), "stretch"), "area"),
        _case("u8[1,13,17,3]", "bgr", fit_frame((13, 17), (5, 7), "stretch"), "antialias"),
        _case("u8[1,5,3,1]", "gray", fit_frame((5, 3), (7, 5), "letterbox"), "nearest"),
        _case("u8[2,15,14]", "nv12", fit_frame((10, 14), (10, 14), "stretch")),
        _case("u8[1,33,26]", "nv12", fit_frame((22, 26), (7, 5), "letterbox"), matrix="bt709"),
        _case("u8[1,21,10]", "nv21", fit_frame((14, 10), (5, 7), "crop"), "area", "bt601-full"),
        _case("u8[2,9,10]", "yuv420", fit_frame((6, 10), (11, 5), "stretch"), "nearest"),
        _case("u8[1,33,14]", "yuv420", fit_frame((22, 14), (13, 7), "stretch", (3, 1, 17, 11))),
    ),
)
