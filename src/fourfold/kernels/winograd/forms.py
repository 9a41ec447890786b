"""Choice of the Winograd kernel form, and when to use it without timing."""

from __future__ import annotations

from fourfold.kernel.context import NodeContext
from fourfold.kernels.conv.tile import ConvTile, Work, candidate_tiles, choose_tile, tile_fits
from fourfold.kernels.winograd.transforms import FILTER, MAX_HELD_INPUTS, Form, Tiling

MAX_GPU_ACCUMULATORS = 4  # accumulators of a GPU work-item, which keeps one set per position

# Costs are in multiply-adds of eight numbers on one core, fitted to ResNet-50, EDSR and style
# transfer with PoCL. INPUT is the transform of four channels of a tile, OUTPUT the inverse
# transform of eight sums.
INPUT_COST = {(2, True): 70.0, (4, True): 240.0, (2, False): 220.0, (4, False): 540.0}
OUTPUT_COST = {2: 60.0, 4: 180.0}
WEIGHT_COST = 1.0  # to load one from memory, which other layers compete for
CACHED_WEIGHTS = 1 << 17  # weights that stay in a core's cache
LAUNCH_COST = 3e4
COPY_COST = 18.0  # of four channels of a pixel
MAX_REGISTER_ACCUMULATORS = 12  # accumulators beyond which CPU registers spill
MAX_COST_RATIO = 0.9  # maximum cost relative to the direct convolution


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
