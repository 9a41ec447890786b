"""sink_transposes: transposes move down until they meet one that undoes them."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from random_graphs import assert_rewrites

from fourfold.compiler.rewrite._axes import gathered_order
from fourfold.compiler.rewrite.sink_transposes import sink_transposes
from fourfold.ops.base.axis_orders import inverse, move_reshape_before

LAST, FIRST = "permutation=(0, 2, 3, 1)", "permutation=(0, 3, 1, 2)"


def rewrites(before: str, *after: str) -> None:
    assert_rewrites(sink_transposes, before, *after)


def test_removes_inverse_transposes() -> None:
    rewrites(
        f"""
        input x: f32[1,4,5,3]
        a = relu(x)
        b = transpose(a; {FIRST})
        c = transpose(b; {LAST})
        y = exp(c)
        output y
        """,
        "a = relu(x)",
        "y = exp(a)",
    )


def test_constants_and_channels_follow() -> None:
    rewrites(
        f"""
        input x: f32[1,4,5,3]
        const c: f32[3,1,1]
        const n: f32[]
        t = transpose(x; {FIRST})
        a = mul(t, c)
        b = add(a, n)
        m = mean(b; axes=(2, 3), keep_dims=True)
        d = sub(b, m)
        y = transpose(d; {LAST})
        output y
        """,
        "a/before = mul(x, c/turned)",
        "b/before = add(a/before, n)",
        "m/before = mean(b/before; axes=(1, 2), keep_dims=True)",
        "d/before = sub(b/before, m/before)",
        "y = identity(d/before)",
    )


def test_concat_slice_and_pad_take_the_other_axis() -> None:
    rewrites(
        f"""
        input x: f32[1,4,5,8]
        input z: f32[1,4,5,2]
        a = transpose(x; {FIRST})
        b = transpose(z; {FIRST})
        c = concat(a, b; axis=1)
        d = slice(c; begin=(0, 4, 0, 1), size=(1, 6, 4, 3), strides=(1, 1, 1, 1))
        e = pad(d; before=(0, 0, 1, 2), after=(0, 3, 0, 0))
        y = transpose(e; {LAST})
        output y
        """,
        "c/before = concat(x, z; axis=3)",
        "d/before = slice(c/before; begin=(0, 0, 1, 4), size=(1, 4, 3, 6), strides=(1, 1, 1, 1))",
        "e/before = pad(d/before; before=(0, 1, 2, 0), after=(0, 0, 0, 3))",
        "y = identity(e/before)",
    )


def test_channels_are_shuffled_in_place() -> None:
    rewrites(
        f"""
        input x: f32[1,4,5,6]
        a = transpose(x; {FIRST})
        b = reshape(a; shape=(1, 2, 3, 4, 5))
        c = transpose(b; permutation=(0, 2, 1, 3, 4))
        d = reshape(c; shape=(1, 6, 4, 5))
        y = transpose(d; {LAST})
        output y
        """,
        "b/before = reshape(x; shape=(1, 4, 5, 2, 3))",
        "c/joined = transpose(b/before; permutation=(0, 1, 2, 4, 3))",
        "d/before = reshape(c/joined; shape=(1, 4, 5, 6))",
        "y = identity(d/before)",
    )


def test_weights_after_a_flattened_image_are_permuted() -> None:
    rewrites(
        f"""
        input x: f32[2,4,5,3]
        const w: f32[7,60]
        a = transpose(x; {FIRST})
        b = reshape(a; shape=(2, 60))
        y = fully_connected(b, w)
        output y
        """,
        "b/before = reshape(x; shape=(2, 60))",
        "y = fully_connected(b/before, w/turned)",
    )


def test_keeps_transposes_if_more_would_move() -> None:
    before = f"""
        input x: f32[1,4,5,3]
        a = transpose(x; {FIRST})
        b = relu(a)
        c = exp(a)
        output b, c
    """
    lines = [line.strip() for line in before.strip().splitlines()]
    rewrites(before, *lines[1:4])


def factorised(source: random.Random, size: int) -> list[int]:
    """Return a list of sizes with this product, including ones."""
    sizes = []
    while size > 1:
        factor = source.choice([f for f in range(2, size + 1) if size % f == 0])
        sizes.append(factor)
        size //= factor
    for _ in range(source.randrange(3)):
        sizes.insert(source.randrange(len(sizes) + 1), 1)
    return sizes


@pytest.mark.parametrize("seed", range(300))
def test_a_reshape_before_a_transpose_gives_the_same(seed: int) -> None:
    source = random.Random(seed)
    size = source.choice((1, 6, 12, 24, 60))
    shape, result = tuple(factorised(source, size)), tuple(factorised(source, size))
    order = list(range(len(shape)))
    source.shuffle(order)
    array = np.arange(size).reshape(shape)
    made_from = array.transpose(inverse(tuple(order)))
    results = move_reshape_before(shape, result, tuple(order))
    if results is not None:
        assert np.array_equal(
            made_from.reshape(results[0]).transpose(results[1]), array.reshape(result)
        )


def test_most_splits_of_axes_are_possible() -> None:
    for seed in range(100):
        source = random.Random(seed)
        shape = tuple(source.choice((2, 3, 5)) ** source.choice((1, 2)) for _ in range(3))
        result = tuple(part for size in shape for part in (factorised(source, size) or [1]))
        order = source.sample(range(3), 3)
        assert math.prod(shape) == math.prod(result)
        assert move_reshape_before(shape, result, tuple(order)) is not None


@pytest.mark.parametrize("added", [0, 1, 2])
def test_gathered_axes(added: int) -> None:
    array, order = np.arange(24).reshape(2, 3, 4), (2, 0, 1)
    indices = np.arange(2**added).reshape((2,) * added) % 2
    for axis in range(3):
        expected = np.take(array.transpose(order), indices, axis)
        after = gathered_order(order, axis, added)
        assert np.array_equal(np.take(array, indices, order[axis]).transpose(after), expected)
