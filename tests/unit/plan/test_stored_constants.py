"""Stored constants: small, shared between layouts, and equal to the originals bit by bit."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from stored_pieces import FORMS, SCALES, STEPS, stored_block
from tiny_plan import line

from fourfold.plan import Buffer, Plan
from fourfold.plan.encode_constants import WeightList, encode_constants, find_grid
from fourfold.plan.layout import Arranged, ArrayLayout, Piece
from fourfold.plan.stored_constants import expand_constants
from fourfold.types import DType


def plan_with(constants: np.ndarray, pieces: tuple[Piece, ...]) -> Plan:
    plan = line().plan
    buffers = list(plan.buffers)
    buffers[1] = Buffer("constants", "constants", constants.nbytes)
    return replace(plan, buffers=tuple(buffers), constants=constants, pieces=pieces)


def expanded(size: int, records: Any, remaining: np.ndarray, weights: WeightList) -> np.ndarray:
    data = [np.ascontiguousarray(one).reshape(-1).view(np.uint8) for one in weights.arrays]
    return expand_constants(size, records, remaining, data.__getitem__)


@pytest.mark.parametrize("name", FORMS)
def test_layouts_can_be_inverted(name: str) -> None:
    array, layout, _ = FORMS[name]
    arranged = Arranged.of(array, layout).array
    assert arranged.shape == layout.dimensions
    assert arranged.size == layout.elements
    assert layout.restore(arranged).tobytes() == array.tobytes()


def test_every_form_expands_to_the_same_bytes() -> None:
    constants, pieces = stored_block()
    weights = WeightList()
    encoded = encode_constants(plan_with(constants, pieces), weights)
    stored = [one.stored for one in encoded.pieces]
    assert stored == [dtype for _, _, dtype in FORMS.values()]
    records = [one.to_record() for one in encoded.pieces]
    block = expanded(constants.nbytes, records, encoded.remaining, weights)
    assert block.tobytes() == constants.tobytes()


def test_plans_with_other_layouts_share_weights() -> None:
    array = STEPS.astype(np.float32) * SCALES[:, None, None]
    weights, numbers = WeightList(), set()
    for width in (4, 8, 16):
        factors = ((-(-20 // width), width), (9,), (8,))
        arranged, layout = Arranged.of(array, ArrayLayout(array.shape, factors, (0, 2, 3, 1)))
        plan = plan_with(arranged.reshape(-1).view(np.uint8), (Piece(0, DType.F32, layout),))
        (piece,) = encode_constants(plan, weights).pieces
        numbers.add(piece.weights)
    assert len(numbers) == 1
    assert sum(one.nbytes for one in weights.arrays) == array.size + SCALES.nbytes


def test_integer_kernels_share_the_weights_of_float_kernels() -> None:
    array = STEPS.astype(np.float32) * np.float32(0.013)
    weights, plain = WeightList(), ArrayLayout.plain(STEPS.shape)
    for one, dtype in ((array, DType.F32), (STEPS, DType.I8)):
        plan = plan_with(one.reshape(-1).view(np.uint8), (Piece(0, dtype, plain),))
        encode_constants(plan, weights)
    assert [one.nbytes for one in weights.arrays] == [STEPS.size]


def test_biases_with_other_padding_are_shared() -> None:
    bias, weights = np.linspace(1, 2, 300, dtype=np.float32), WeightList()
    for size in (304, 320, 384):
        padded = np.zeros(size, np.float32)
        padded[:300] = bias
        piece = Piece(0, DType.F32, ArrayLayout.plain((size,)))
        encode_constants(plan_with(padded.view(np.uint8), (piece,)), weights)
    assert [one.nbytes for one in weights.arrays] == [bias.nbytes]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("low", [1, 2, 3, 40, 100])
def test_grids_are_found_from_values_alone(dtype: type, low: int) -> None:
    """The smallest value of a channel need not be one step."""
    random = np.random.default_rng(low)
    steps = random.integers(low, 128, (6, 40)) * random.choice((-1, 1), (6, 40))
    scales = random.uniform(1e-4, 3, 6).astype(np.float32)
    array = (steps.astype(np.float32) * scales[:, None]).astype(dtype)
    found = find_grid(array, 0)
    assert found is not None
    again = (found[0].astype(np.float32) * found[1][:, None]).astype(dtype)
    assert again.tobytes() == array.tobytes()


def test_weights_without_a_grid_have_none() -> None:
    random = np.random.default_rng(1).standard_normal((16, 64)).astype(np.float32)
    assert find_grid(random, None) is None
    assert find_grid(random, 0) is None
    assert find_grid(np.full((16, 64), np.nan, np.float32), None) is None
    assert find_grid(np.zeros((16, 64), np.float32), None) is None


CHANGES: dict[str, tuple[tuple[int, ...], Any]] = {
    "a start outside the block": ((0, 0), 2**40),
    "a negative start": ((0, 0), -64),
    "a start that is no number": ((0, 0), "0"),
    "overlapping pieces": ((1, 0), 0),
    "an unknown type": ((0, 1), "f128"),
    "another type": ((8, 1), "i32"),
    "a larger array": ((0, 2, 0), 25),
    "an empty axis": ((0, 2, 1), 0),
    "a missing axis": ((0, 2), [20, 9]),
    "huge factors": ((0, 3, 0, 0), 2**39),
    "a repeated dimension": ((0, 4), [0, 2, 3, 3]),
    "an unknown dimension": ((0, 4), [0, 2, 3, 9]),
    "weights that do not exist": ((0, 5), 99),
    "weights of another size": ((0, 5), 1),
    "a stored type without a conversion": ((0, 6), "i8"),
    "a zero that is no byte": ((0, 7), 256),
    "an axis that does not exist": ((1, 9), 3),
    "scales of another size": ((1, 8), 0),
    "an array as a number": ((0,), []),
}


@pytest.mark.parametrize("change", CHANGES)
def test_malformed_records_are_refused(change: str) -> None:
    constants, pieces = stored_block()
    weights = WeightList()
    encoded = encode_constants(plan_with(constants, pieces), weights)
    records = deepcopy([one.to_record() for one in encoded.pieces])
    place, value = CHANGES[change]
    holder: Any = records
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    with pytest.raises((ValueError, TypeError, KeyError, IndexError)):
        expanded(constants.nbytes, records, encoded.remaining, weights)
