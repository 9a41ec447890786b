"""Winograd transforms, kernel forms, and when to use them without timing.

A tile of m x m outputs of a 3x3 filter g over inputs d is A'[(G g G') * (B' d B)]A, where ' is the
transpose. It takes (m + 2)^2 products per pair of channels instead of 9 m^2, at the price of
additions before and after. Filters are transformed when the plan is made, inputs once for all
outputs, and sums over the channels once for each output.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression
from fourfold.codegen.kernel import Kernel
from fourfold.ops.kernels.conv.tile import ConvTile, Work, candidate_tiles, choose_tile, tile_fits

Matrix = tuple[tuple[float, ...], ...]
FILTER = 3
MAX_HELD_INPUTS = 1 << 15  # transformed inputs that a work-item may hold
_TEXT = re.compile(r"F(\d) (apart|within) (.*)")
MAX_GPU_ACCUMULATORS = 4  # accumulators of a GPU work-item, which keeps one set per position
# Costs are in multiply-adds of eight numbers on one core, fitted to ResNet-50, EDSR and style
# transfer with PoCL: for the transform of four channels of a tile, and for the inverse
# transform of eight sums.
INPUT_COST = {(2, True): 70.0, (4, True): 240.0, (2, False): 220.0, (4, False): 540.0}
OUTPUT_COST = {2: 60.0, 4: 180.0}
WEIGHT_COST = 1.0  # to load one from memory, which other layers compete for
CACHED_WEIGHTS = 1 << 17  # weights that stay in a core's cache
LAUNCH_COST = 3e4
COPY_COST = 18.0  # of four channels of a pixel
MAX_REGISTER_ACCUMULATORS = 12  # accumulators beyond which CPU registers spill
MAX_COST_RATIO = 0.9  # maximum cost relative to the direct convolution


@dataclass(frozen=True)
class Transforms:
    """The matrices for tiles of one size; those of kernels as factors, the last one first."""

    filter: Matrix
    input: tuple[Matrix, ...]
    output: tuple[Matrix, ...]


TRANSFORMS = {
    2: Transforms(
        filter=((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1)),
        input=(((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),),
        output=(((1, 1, 1, 0), (0, 1, -1, -1)),),
    ),
    4: Transforms(
        filter=(
            (1 / 4, 0, 0),
            (-1 / 6, -1 / 6, -1 / 6),
            (-1 / 6, 1 / 6, -1 / 6),
            (1 / 24, 1 / 12, 1 / 6),
            (1 / 24, -1 / 12, 1 / 6),
            (0, 0, 1),
        ),
        input=(
            (
                (1, 0, 0, 0, 0, 0),
                (0, 1, 1, 0, 0, 0),
                (0, 1, -1, 0, 0, 0),
                (0, 0, 0, 1, 1, 0),
                (0, 0, 0, 1, -1, 0),
                (0, 0, 0, 0, 0, 1),
            ),
            (
                (4, 0, -5, 0, 1, 0),
                (0, 0, -4, 0, 1, 0),
                (0, -4, 0, 1, 0, 0),
                (0, 0, -1, 0, 1, 0),
                (0, -2, 0, 2, 0, 0),
                (0, 4, 0, -5, 0, 1),
            ),
        ),
        output=(
            ((1, 1, 0, 1, 0, 0), (0, 0, 1, 0, 2, 0), (0, 1, 0, 4, 0, 0), (0, 0, 1, 0, 8, 1)),
            (
                (1, 0, 0, 0, 0, 0),
                (0, 1, 1, 0, 0, 0),
                (0, 1, -1, 0, 0, 0),
                (0, 0, 0, 1, 1, 0),
                (0, 0, 0, 1, -1, 0),
                (0, 0, 0, 0, 0, 1),
            ),
        ),
    ),
}


@dataclass(frozen=True)
class Form:
    """A kernel form: outputs of a tile along each axis, and the tile of a work-item.

    `within` transforms the inputs in the kernel that multiplies them.
    """

    size: int
    within: bool
    tile: ConvTile

    def __str__(self) -> str:
        return f"F{self.size} {'within' if self.within else 'apart'} {self.tile}"

    @staticmethod
    def parse(text: str | None) -> Form | None:
        """Parse the text of `str(form)`; None if it is not a form."""
        match = _TEXT.fullmatch(text or "")
        tile = None if match is None else ConvTile.parse(match[3])
        if match is None or tile is None or int(match[1]) not in TRANSFORMS:
            return None
        return Form(int(match[1]), match[2] == "within", tile)

    @property
    def reach(self) -> int:
        """Inputs of a tile along each axis."""
        return self.size + FILTER - 1

    @property
    def positions(self) -> int:
        return self.reach**2

    @property
    def panel(self) -> int:
        """Tiles that a work-group takes at once."""
        return self.tile.pixels * self.tile.local[0]


@dataclass(frozen=True)
class Tiling:
    """The tiles of an output: images, and rows and columns of tiles in each."""

    images: int
    rows: int
    columns: int

    @staticmethod
    def of(context: NodeContext, size: int) -> Tiling:
        images, height, width, _ = context.output.shape
        return Tiling(images, -(-height // size), -(-width // size))

    @property
    def count(self) -> int:
        return self.images * self.rows * self.columns


def transform_filters(weights: np.ndarray, size: int) -> np.ndarray:
    """Transform filters: [O,3,3,I] -> [O, positions, I]."""
    matrix = np.array(TRANSFORMS[size].filter)
    both = np.kron(matrix, matrix).astype(np.float32)
    filters: np.ndarray = both @ weights.reshape(weights.shape[0], FILTER**2, -1)
    return filters


def apply(
    kernel: Kernel, factors: Sequence[Matrix], values: Sequence[Expression]
) -> list[Expression]:
    """Multiply the factors by a column of values, without products by zero or one."""
    column = list(values)
    for matrix in reversed(factors):
        column = [_combine(kernel, row, column) for row in matrix]
    return column


def _combine(kernel: Kernel, row: Sequence[float], values: Sequence[Expression]) -> Expression:
    total: Expression | None = None
    for factor, value in sorted(zip(row, values, strict=True), key=lambda pair: -pair[0]):
        if factor:
            part = value if abs(factor) == 1 else value * float(abs(factor))
            if total is None:
                total = part if factor > 0 else -part
            else:
                total = total + part if factor > 0 else total - part
    assert total is not None
    return kernel.let(total, "t")


def choose_form(context: NodeContext) -> Form:
    """Return the form that tuning recorded for this work, or a good one by its size."""
    form = Form.parse(context.choice)
    return form if form is not None and _fits(context, form) else _forms(context)[0]


def winograd_choices(context: NodeContext) -> list[str]:
    """Return every form worth timing, the most promising first."""
    return [str(form) for form in _forms(context)]


def suits_winograd(context: NodeContext) -> bool:
    """Return True if Winograd is faster on this CPU. On a GPU it must be timed."""
    if not context.device.is_cpu or context.options.real == "half":
        return False
    return _cost(context, _forms(context)[0]) < MAX_COST_RATIO * _direct_cost(context)


def _work(context: NodeContext, size: int) -> Work:
    return Work(Tiling.of(context, size).count, context.output.slices, context.input.slices)


def _fits(context: NodeContext, form: Form) -> bool:
    tile, device = form.tile, context.device
    if form.size > 2 and context.options.real == "half":
        return False
    if form.within and not device.is_cpu:
        return False
    block = device.is_cpu or tile.pixels * tile.groups <= MAX_GPU_ACCUMULATORS
    held = form.positions * form.panel * context.input.slices * 4 if form.within else 0
    usable = tile.split == 1 and tile_fits(context.target, _work(context, form.size), tile)
    return usable and block and held <= MAX_HELD_INPUTS


def _forms(context: NodeContext) -> list[Form]:
    """Return two tiles for each output size and kind of transform, the cheapest first."""
    forms: list[Form] = []
    for size in (2, 4):
        tiles = candidate_tiles(context.target, _work(context, size))
        for within in (False, True):
            usable = [form for tile in tiles if _fits(context, form := Form(size, within, tile))]
            usable = usable if context.device.is_cpu else usable[:2]
            forms += sorted(usable, key=lambda form: (_cost(context, form), str(form)))[:2]
    return sorted(forms, key=lambda form: (_cost(context, form), str(form)))


def _cost(context: NodeContext, form: Form) -> float:
    """Estimate the work of the busiest core."""
    tile, inputs = form.tile, context.input.slices
    across, down = _work(context, form.size).tiles(tile)
    block = form.positions * inputs * 4.0 * _multiply_adds(tile)
    block += tile.pixels * tile.groups * tile.width / 8 * OUTPUT_COST[form.size]
    transform = tile.pixels * INPUT_COST[form.size, form.within]
    weights = form.positions * 16.0 * inputs * context.output.slices
    if form.within:
        rounds = _rounds(context, across)
        read = rounds if weights > CACHED_WEIGHTS else 1
        compute = rounds * (inputs * transform + down * block)
        return compute + read * weights * WEIGHT_COST + LAUNCH_COST
    before, products = _rounds(context, across * inputs), _rounds(context, across * down)
    return before * transform + products * block + weights * WEIGHT_COST + 2 * LAUNCH_COST


def _direct_cost(context: NodeContext) -> float:
    """Estimate the work of the busiest core for the direct convolution with a padded copy."""
    work = Work(context.output.pixels, context.output.slices, context.input.slices * FILTER**2)
    tile = choose_tile(context.target, work, None)
    across, down = work.tiles(tile)
    products = _rounds(context, across * down) * work.reduction * 4.0 * _multiply_adds(tile)
    copy = _rounds(context, context.input.pixels * context.input.slices) * COPY_COST
    return products + copy + work.reduction * 16.0 * work.slices * WEIGHT_COST + 2 * LAUNCH_COST


def _multiply_adds(tile: ConvTile) -> float:
    """Return the multiply-adds of eight for one input channel, and the loads that feed them."""
    products = tile.pixels * tile.groups * tile.width / 8
    crowded = 1.4 if tile.pixels * tile.groups > MAX_REGISTER_ACCUMULATORS else 1.0
    return (products + 0.25 * (tile.pixels + 2 * tile.groups)) * crowded


def _rounds(context: NodeContext, items: int) -> int:
    return -(-items // context.device.compute_units)
