"""Matrix units simulated in NumPy: what the work-items of a warp hold, and the result."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from fake_devices import TENSOR_CORES

from fourfold.codegen.expression import Expression, const
from fourfold.codegen.kernel import Kernel
from fourfold.ops.kernels.matrix.depthwise_feed import pack_diagonals
from fourfold.ops.kernels.matrix.feed import InPairs, flatten_taps
from fourfold.ops.kernels.matrix.tile import (
    MatrixTile,
    MatrixWork,
    clocks,
    matrix_tile_fits,
    pack_for_warps,
    ranked_tiles,
    split_weights,
    steps_in_registers,
)
from fourfold.types import Shape

WORKS = [
    MatrixWork(12544, 32, 4),
    MatrixWork(49, 1000, 128),
    MatrixWork(197, 61, 9),
    MatrixWork(2, 8, 1),
    MatrixWork(784, 37, 13, reads=12, sums=9, filters=4),
]
LANES = np.arange(32)
COLUMN, QUARTER = LANES // 4, LANES % 4


def numbers(*shape: int) -> np.ndarray:
    """Return small integers whose products and sums are exact in fp16."""
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(np.float16)


def test_weights_are_packed_in_the_order_of_a_warp() -> None:
    weights, x = numbers(13, 41), numbers(16, 48)
    x[:, 41:] = 0
    packed = pack_for_warps(weights).reshape(2, 3, 32, 4)
    result = np.zeros((16, 16))
    for block in range(2):
        for step in range(3):
            for lane in range(32):
                start = step * 16 + QUARTER[lane] * 4
                products = x[:, start : start + 4].astype(float) @ packed[block, step, lane]
                result[:, block * 8 + COLUMN[lane]] += products
    np.testing.assert_array_equal(result[:, :13], x[:, :41].astype(float) @ weights.T)
    np.testing.assert_array_equal(result[:, 13:], 0)


@pytest.mark.parametrize(("taps", "channels"), [(9, 3), (1, 24), (49, 3), (9, 16), (4, 20)])
def test_taps_side_by_side_fill_whole_steps(taps: int, channels: int) -> None:
    weights = numbers(5, taps, channels)
    flat, slices = flatten_taps(weights), -(-channels // 4)
    assert flat.shape[1] % 16 == 0
    padded = flat[:, : taps * slices * 4].reshape(5, taps, slices * 4)
    np.testing.assert_array_equal(padded[:, :, :channels], weights)
    assert not padded[:, :, channels:].any()
    assert not flat[:, taps * slices * 4 :].any()


def test_a_diagonal_applies_a_weight_per_channel() -> None:
    filters, x = numbers(3, 32), numbers(3, 16, 32)
    words = pack_diagonals(filters).reshape(2, 4, 2, 4)
    np.testing.assert_array_equal(words[..., 3], 0)
    result = np.zeros((16, 32))
    for step in range(2):
        for tap in range(3):
            for half in range(2):
                result += product_with_diagonal(x[tap], words[step, :, :, tap], step, half)
    np.testing.assert_array_equal(result, (x.astype(float) * filters[:, np.newaxis]).sum(0))


def product_with_diagonal(x: np.ndarray, words: np.ndarray, step: int, half: int) -> np.ndarray:
    """Simulate a 16 x 8 x 8 instruction with the weights that `pick` selects."""
    diagonal = np.zeros((8, 8))
    for lane in range(32):
        odd = COLUMN[lane] % 2
        if QUARTER[lane] == COLUMN[lane] // 2:
            word = np.int32(words[QUARTER[lane], odd]).reshape(1).view(np.float16)
            diagonal[2 * QUARTER[lane] + odd, COLUMN[lane]] = word[half]
    channels = step * 16 + np.array([4 * q + 2 * half + odd for q in range(4) for odd in range(2)])
    result = np.zeros((16, 32))
    result[:, channels] = x[:, channels].astype(float) @ diagonal
    return result


def test_two_parts_are_almost_fp32() -> None:
    weights = np.random.default_rng(3).normal(0, 0.1, (37, 41)).astype(np.float32)
    weights[0, :2] = 1e5, -7e4
    (alone,) = split_weights(weights, 1)
    first, rest = split_weights(weights, 2)
    np.testing.assert_array_equal(first, alone)
    assert np.isfinite(first).all()
    near = first.astype(np.float32) + rest.astype(np.float32)
    np.testing.assert_allclose(near, weights, rtol=1e-6, atol=4e-8)
    assert np.abs(alone - weights)[1:].max() > 1e-5


def test_values_read_ahead_fit_in_registers() -> None:
    work = WORKS[-1]
    few, many = MatrixTile(1, 8, 1, 1, 1), MatrixTile(1, 1, 1, 1, 13)
    assert steps_in_registers(work, few) == 1
    assert 2 <= steps_in_registers(work, many) < 13
    assert steps_in_registers(work, MatrixTile(4, 8, 1, 1, 13)) == 0
    assert not matrix_tile_fits(TENSOR_CORES, work, MatrixTile(4, 8, 1, 1, 13))


@pytest.mark.parametrize("shape", [(2, 3, 8, 16), (1, 7, 7, 16), (3, 1, 1, 4)])
def test_pairs_contain_every_pixel_once(shape: Shape) -> None:
    rows, kernel, pixels = InPairs(shape), Kernel("rows", literal=True), prod(shape[:3])
    blocks = -(-rows.count // 16)
    spots = [
        known(one)
        for block in range(blocks)
        for line in range(8)
        for one in rows.pixels(kernel, const(block), const(line))
    ]
    assert sorted(spot for spot in spots if spot < pixels) == list(range(pixels))
    for block in range(blocks):
        for line in range(8):
            upper, lower = map(known, rows.readable(kernel, const(block), const(line)))
            assert 0 <= upper < pixels
            assert lower in (upper, upper + 1)
            assert lower < pixels


def known(value: Expression) -> int:
    assert value.number is not None
    return int(value.number)


@pytest.mark.parametrize("work", WORKS, ids=str)
def test_every_tile_round_trips_as_text_and_fits(work: MatrixWork) -> None:
    found = ranked_tiles(TENSOR_CORES, work)
    assert found
    for tile in found:
        assert MatrixTile.parse(str(tile)) == tile
        assert matrix_tile_fits(TENSOR_CORES, work, tile)
        assert tile.split * tile.ahead <= work.steps
    assert clocks(TENSOR_CORES, work) > 0


def test_rejects_text_that_is_no_tile() -> None:
    assert MatrixTile.parse(None) is None
    assert MatrixTile.parse("1x4 by 2") is None
    assert not matrix_tile_fits(TENSOR_CORES, MatrixWork(2, 8, 1), MatrixTile(1, 1, 1, 2))
