"""The kernels of a Winograd convolution: transform the inputs, multiply, transform back.

Transformed inputs are stored in panels, one for each work-group of the kernel that multiplies.
Within a panel the order is position, slice, tile, so that it is read sequentially.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import (
    Expression,
    Pointer,
    const,
    convert,
    guarded,
    load,
    minimum,
    vector,
    widen,
)
from fourfold.codegen.kernel import Kernel, Variable
from fourfold.codegen.location import Layout
from fourfold.ops.base.window import Padding
from fourfold.ops.kernels.conv.tiled import pack_bias, pack_weights
from fourfold.ops.kernels.winograd.forms import (
    MAX_HELD_INPUTS,
    TRANSFORMS,
    Form,
    Tiling,
    apply,
    transform_filters,
)
from fourfold.types import DType

Read = Callable[[int, Expression | None], Expression]
Corner = tuple[Expression, Expression, Expression]  # image, row, column


class Winograd:
    """One convolution being written."""

    def __init__(
        self, context: NodeContext, form: Form, padding: Padding, weights: np.ndarray
    ) -> None:
        self.context, self.form, self.weights = context, form, weights
        self.before = (padding.top, padding.left)
        self.tiling, self.transforms = Tiling.of(context, form.size), TRANSFORMS[form.size]
        self.panels = -(-self.tiling.count // form.panel)
        # Larger tiles need more digits for their sums than fp16 has.
        exact = form.within or form.size > 2
        self.storage = DType.F32 if exact else context.options.storage

    def write(self) -> None:
        if self.form.within:
            self._write_within()
        else:
            self._write_apart()

    @property
    def _elements(self) -> int:
        """Transformed inputs in a panel."""
        return self.form.panel * self.form.positions * self.context.input.slices * 4

    @property
    def _blocks(self) -> int:
        """Blocks of output channels, as many as a work-item computes at once in each."""
        tile = self.form.tile
        return -(-self.context.output.channels // (tile.width * tile.groups))

    def _write_within(self) -> None:
        """Write one kernel: a work-item transforms its inputs and computes all channels."""
        form, kernel = self.form, self.context.kernel("conv2d_winograd_within")
        # One size for all, so that layers of different depth share a kernel text.
        values = kernel.private_array("values", self.storage, MAX_HELD_INPUTS)
        (x,) = kernel.ids(self.panels)
        first = kernel.let(x * form.panel, "first")
        transform = _Transform(self, kernel, values)
        with kernel.loop(form.panel, title="place") as tile:
            corner = transform.corner(first + tile)
            with kernel.loop(transform.source.slices, title="slice") as slice_:
                transform.write(corner, slice_, const(0), tile)
        products = _Products(self, kernel, values)
        with kernel.loop(kernel.size("blocks", self._blocks), title="block") as block:
            products.write(const(0), first, const(0), block)

    def _write_apart(self) -> None:
        """Write two kernels, with the transformed inputs in memory between them."""
        form, context = self.form, self.context
        wide, tall = form.tile.local
        scratch = context.scratch("transformed", self.storage, self._elements * self.panels)
        kernel = context.kernel("winograd_transform")
        transform = _Transform(self, kernel, kernel.pointer("values", self.storage, scratch, True))
        x, y = kernel.ids(self.panels * wide, context.input.slices, local=(wide, 1))
        panel, lane = kernel.let(x // wide, "panel"), kernel.local_id(0)
        with kernel.loop(form.tile.pixels, title="step") as step:
            tile = kernel.let(step * wide + lane, "place")
            transform.write(transform.corner(panel * form.panel + tile), y, panel, tile)
        kernel = context.kernel("conv2d_winograd")
        products = _Products(self, kernel, kernel.pointer("values", self.storage, scratch))
        x, y = kernel.ids(self.panels * wide, self._blocks, local=(wide, tall))
        panel, lane = kernel.let(x // wide, "panel"), kernel.local_id(0)
        products.write(panel, panel * form.panel, lane, y)


class _Tiles:
    """Base of both kernels: finds where a tile is."""

    def __init__(self, plan: Winograd, kernel: Kernel, values: Pointer) -> None:
        self.plan, self.kernel, self.values, self.form = plan, kernel, values, plan.form

    def place(self, tile: Expression) -> Corner:
        """Return the image of a tile, and the first row and column of its outputs."""
        kernel, tiling, size = self.kernel, self.plan.tiling, self.form.size
        columns = kernel.size("tile_columns", tiling.columns)
        tile_row = kernel.let(tile // columns, "rest")
        left = kernel.let((tile - tile_row * columns) * size, "left")
        if tiling.images == 1:
            return const(0), kernel.let(tile_row * size, "top"), left
        rows = kernel.size("tile_rows", tiling.rows)
        return tile_row // rows, kernel.let(tile_row % rows * size, "top"), left

    def index(self, panel: Expression, slices: Expression) -> Expression:
        return panel * self.form.positions * slices


class _Transform(_Tiles):
    """Reads tiles of the input and writes them transformed."""

    def __init__(self, plan: Winograd, kernel: Kernel, values: Pointer) -> None:
        super().__init__(plan, kernel, values)
        self.source = plan.context.read(kernel, 0)

    def corner(self, tile: Expression) -> Corner:
        """Return the image, row and column where a tile's inputs start; it may be outside."""
        kernel, tiling, before = self.kernel, self.plan.tiling, self.plan.before
        if tiling.count % self.form.panel:
            tile = minimum(tile, kernel.size("last_tile", tiling.count - 1))
        image, top, left = self.place(kernel.let(tile, "tile"))
        return image, kernel.let(top - before[0], "y"), kernel.let(left - before[1], "x")

    def write(
        self,
        corner: Corner,
        slice_: Expression,
        panel: Expression,
        tile: Expression,
    ) -> None:
        kernel, form, source = self.kernel, self.form, self.source
        image, y, x = corner
        reach, height, width = form.reach, source.axis(1), source.axis(2)
        first = kernel.let((image * height + y) * width + x, "first")
        rows = [self._row(kernel.let(first + width * n, "row"), slice_) for n in range(reach)]
        zero = const(0.0, "float", 4)
        half = [[kernel.variable(zero, "h") for _ in range(reach)] for _ in range(reach)]
        inside = (y >= 0) & (x >= 0) & (y + (reach - 1) < height) & (x + (reach - 1) < width)
        with kernel.when(inside) as branch:
            self._transform_columns(half, rows, None)
        if branch is not None:
            with kernel.otherwise(branch):
                down = [kernel.let((y + n >= 0) & (y + n < height), "in_y") for n in range(reach)]
                across = [kernel.let((x + n >= 0) & (x + n < width), "in_x") for n in range(reach)]
                self._transform_columns(half, rows, (down, across))
        stride = kernel.let(source.slices * form.panel, "stride")
        start = (self.index(panel, source.slices) + slice_) * form.panel + tile
        to = kernel.shifted(self.values, start, 4, "to")
        for row, line in enumerate(half):
            for column, value in enumerate(apply(kernel, self.plan.transforms.input, line)):
                kernel.store(to, stride * (row * reach + column), value)

    def _row(self, pixel: Expression, slice_: Expression) -> Read:
        """Return a function that reads the pixels to the right of `pixel`, if they exist."""
        source = self.source
        if source.location.layout is not Layout.SLICED:
            return lambda column, inside: source.load(pixel + column, slice_, inside)
        near = self.kernel.shifted(source.pointer, source.index(pixel, slice_), 4, "near")

        def read(column: int, inside: Expression | None) -> Expression:
            value = source.steps.real(load(near, column, source.kind, 4))
            return value if inside is None else guarded(inside, value)

        return read

    def _transform_columns(
        self,
        half: list[list[Variable]],
        rows: list[Read],
        inside: tuple[list[Expression], list[Expression]] | None,
    ) -> None:
        """Transform column by column."""
        kernel, reach = self.kernel, self.form.reach
        for column in range(reach):
            values = []
            for row in range(reach):
                exists = None if inside is None else inside[0][row] & inside[1][column]
                values.append(kernel.let(convert(rows[row](column, exists), "float"), "d"))
            for row, total in enumerate(apply(kernel, self.plan.transforms.input, values)):
                kernel.set(half[row][column], total)


class _Products(_Tiles):
    """Multiplies transformed tiles by transformed filters, and transforms the sums back."""

    def __init__(self, plan: Winograd, kernel: Kernel, values: Pointer) -> None:
        super().__init__(plan, kernel, values)
        context, form = plan.context, plan.form
        self.target = context.write(kernel)
        filters = pack_weights(transform_filters(plan.weights, form.size), form.tile)
        pack = context.packed if form.size > 2 else context.weights
        self.filters = pack(kernel, "weights", filters)
        bias = pack_bias(context.array(2), context.output.channels, form.tile)
        self.bias = context.packed(kernel, "bias", bias)
        self.lanes = min(4, context.input.channels)
        self.block = form.tile.pixels * form.tile.groups
        size = form.positions * self.block * form.tile.width
        self.sums = kernel.private_array("sums", DType.F32, size)

    def write(
        self, panel: Expression, first: Expression, lane: Expression, block: Expression
    ) -> None:
        """Compute the outputs of work-item `lane` of a panel, for one block of output channels."""
        kernel, tile, count = self.kernel, self.form.tile, self.plan.tiling.count
        group = kernel.let(block * tile.groups, "group")
        self._sum_channels(panel, lane, group)
        with kernel.loop(tile.pixels, title="step") as step:
            number = kernel.let(first + step * tile.local[0] + lane, "tile")
            ragged = count % self.form.panel != 0
            with kernel.when(number < kernel.size("tiles", count) if ragged else const(True)):
                corner = self.place(number)
                with kernel.loop(tile.groups, title="column") as column:
                    held = kernel.let(step * tile.groups + column, "held")
                    self._store_tile(held, corner, kernel.let(group + column, "group"))

    def _sum_channels(self, panel: Expression, lane: Expression, group: Expression) -> None:
        """Sum over all input channels, position by position."""
        kernel, form, tile = self.kernel, self.form, self.form.tile
        slices = kernel.size("slices", self.plan.context.input.slices)
        block = kernel.let(slices * (4 * form.positions), "block")
        starts = [kernel.let((group + column) * block, "w") for column in range(tile.groups)]
        with kernel.loop(form.positions, title="position") as position:
            zero = const(0.0, kernel.real, tile.width)
            sums = [
                [kernel.variable(zero, "sum") for _ in range(tile.groups)]
                for _ in range(tile.pixels)
            ]
            at = kernel.let(self.index(panel, slices) + position * slices, "at")
            factor = kernel.let(position * slices * 4, "k")
            with kernel.loop(slices, title="slice") as slice_:
                self._multiply(sums, at + slice_, lane, [w + factor + slice_ * 4 for w in starts])
            every = [value for line in sums for value in line]
            for number, value in enumerate(every):
                kernel.store(self.sums, position * self.block + number, value)

    def _multiply(
        self,
        sums: list[list[Variable]],
        at: Expression,
        lane: Expression,
        starts: list[Expression],
    ) -> None:
        """Multiply one slice of input channels, loaded one by one on a CPU, else in fours."""
        kernel, tile, form = self.kernel, self.form.tile, self.form
        wide = tile.local[0]
        rows = [kernel.shifted(self.filters, start, tile.width, "row") for start in starts]
        alone, fours = self.plan.context.device.is_cpu, []
        start = at * form.panel + lane
        if alone:
            near = kernel.shifted(self.values, start * 4, 1, "near")
        else:
            near = kernel.shifted(self.values, start, 4, "near")
            fours = [
                kernel.let(load(near, step * wide, kernel.real, 4), "v")
                for step in range(tile.pixels)
            ]
        for number in range(self.lanes):
            factors = [kernel.let(load(row, number, kernel.real, tile.width), "f") for row in rows]
            for step, line in enumerate(sums):
                one = load(near, step * wide * 4 + number, kernel.real) if alone else None
                value = fours[step].lane(number) if one is None else kernel.let(one, "a")
                for total, factor in zip(line, factors, strict=True):
                    kernel.add(total, widen(value, tile.width) * factor)

    def _store_tile(
        self,
        number: Expression,
        corner: Corner,
        group: Expression,
    ) -> None:
        """Transform the sums of one tile and group of channels back and store them."""
        kernel, form, width = self.kernel, self.form, self.form.tile.width
        near = kernel.shifted(self.sums, number, width, "near")
        columns = []
        for column in range(form.reach):
            stored = [
                load(near, (row * form.reach + column) * self.block, "float", width)
                for row in range(form.reach)
            ]
            columns.append(apply(kernel, self.plan.transforms.output, stored))
        bias = kernel.let(load(self.bias, group, "float", width), "bias_v")
        image, top, left = corner
        first = kernel.let(self.target.pixel([image, top, left]), "first")
        for row in range(form.size):
            line = [column[row] for column in columns]
            values = [v + bias for v in apply(kernel, self.plan.transforms.output, line)]
            with kernel.when(self._exists(1, top, row)):
                start = kernel.let(first + self.target.axis(2) * row, "row")
                self._store(values, start, left, group)

    def _exists(self, axis: int, start: Expression, step: int) -> Expression:
        ragged = self.target.type.shape[axis] % self.form.size != 0
        return start + step < self.target.axis(axis) if ragged and step else const(True)

    def _store(
        self, values: list[Expression], start: Expression, left: Expression, group: Expression
    ) -> None:
        """Store a row of outputs, in pairs if a row has an even number of them."""
        kernel, tile, target = self.kernel, self.form.tile, self.target
        parts = tile.width // 4
        run = 2 if target.type.shape[2] % 2 == 0 else 1
        exact = target.type.slices % (parts * tile.groups) == 0
        for part in range(parts):
            slice_ = kernel.let(group * parts + part, "slice")
            with kernel.when(const(True) if exact else slice_ < target.slices):
                for first in range(0, len(values), run):
                    with kernel.when(self._exists(2, left, first)):
                        near = [value.part(part, 4) for value in values[first : first + run]]
                        value = near[0] if run == 1 else vector(*near)
                        target.store(start + first, slice_, convert(value, kernel.real), run)
