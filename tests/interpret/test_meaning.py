"""Semantics of kernels: numbers, branches, loops, and operations between work-items."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from tree_plans import floats, kernel_of, plan_of, play

from fourfold.backends.interpreter.player import Player
from fourfold.backends.null import NULL_GPU
from fourfold.codegen import expression as e
from fourfold.codegen import intrinsics
from fourfold.codegen.expression import Expression, const, convert, load, vector, where
from fourfold.codegen.intrinsics import (
    load_taps,
    load_words,
    pack_halves,
    subgroup_exchange,
    subgroup_shift,
    subgroup_size,
    unpack_halves,
)
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.statement import (
    DiagonalMultiply,
    DotAccumulate,
    Leave,
    MatrixMultiply,
    StoreRounded,
    StoreRoundedBlock,
)
from fourfold.types import DType

MOST, LEAST = 2**31 - 1, -(2**31)
Function = Callable[..., Expression]


def mapped(function: Function, *arrays: np.ndarray, kind: str = "", to: str = "") -> np.ndarray:
    """Apply a function of expressions to arrays, element by element."""
    kernel, (x,) = kernel_of("map", (arrays[0].size,))
    names = [f"src_{number}" for number in range(len(arrays))]
    pointers = [kernel.pointer(n, DType.of(a), None) for n, a in zip(names, arrays, strict=True)]
    kinds = [kind or ("int" if a.dtype.kind == "i" else "float") for a in arrays]
    loads = [load(p, x, k) for p, k in zip(pointers, kinds, strict=True)]
    value = function(*loads)
    natural = {"int": "i32", "float": "f32", "half": "f16", "bool": "bool"}
    dtype = DType(to or natural[value.kind])
    kernel.store(kernel.pointer("dst", dtype, None, True), x, value)
    inputs = dict(zip(names, arrays, strict=True))
    plan = plan_of([kernel], inputs, {"dst": f"{dtype.value}[{arrays[0].size}]"})
    return play(plan, inputs)["dst"]


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def reals(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


def test_whole_numbers_wrap_around() -> None:
    a = ints(MOST, LEAST, 65536, -5)
    assert mapped(lambda x: x + 1, a).tolist() == [LEAST, LEAST + 1, 65537, -4]
    assert mapped(lambda x: x * x, a).tolist() == [1, 0, 0, 25]
    assert mapped(lambda x: -x, a).tolist() == [-MOST, LEAST, -65536, 5]


def test_division_goes_towards_zero() -> None:
    a, b = ints(7, -7, 7, -7, 0, 8), ints(2, 2, -2, -2, 3, 4)
    assert mapped(lambda x, y: x // y, a, b).tolist() == [3, -3, -3, 3, 0, 2]
    assert mapped(lambda x, y: x % y, a, b).tolist() == [1, -1, 1, -1, 0, 0]


def test_bits_are_those_of_32_bit_numbers() -> None:
    a, b = ints(12, -1, LEAST, 5), ints(10, 7, 31, 0)
    assert mapped(intrinsics.bit_and, a, b).tolist() == [8, 7, 0, 0]
    assert mapped(intrinsics.bit_or, a, b).tolist() == [14, -1, LEAST + 31, 5]
    assert mapped(intrinsics.bit_xor, a, b).tolist() == [6, -8, LEAST + 31, 5]
    assert mapped(intrinsics.shift_left, a, b).tolist() == [12288, -128, 0, 5]
    assert mapped(intrinsics.shift_right, a, b).tolist() == [0, -1, -1, 5]


def test_conversions_truncate() -> None:
    a = reals(2.9, -2.9, 0.4, -0.4)
    assert mapped(lambda x: convert(x, "int"), a).tolist() == [2, -2, 0, 0]
    assert mapped(lambda x: convert(x, "bool"), reals(0.0, -0.0, 0.1, np.nan)).tolist() == [
        False,
        False,
        True,
        True,
    ]
    assert mapped(lambda x: x, ints(300, -1), to="u8").tolist() == [44, 255]


def test_roundings() -> None:
    a = reals(0.5, 1.5, 2.5, -0.5, -2.5, 0.49999997)
    assert mapped(e.round_even, a).tolist() == [0, 2, 2, 0, -2, 0]
    assert mapped(e.round_away, a).tolist() == [1, 2, 3, -1, -3, 0]


def test_fp16_is_rounded_after_every_operation() -> None:
    a, b = reals(1.0, 2048.0, 65504.0), reals(0.0004, 1.0, 65504.0)
    result = mapped(lambda x, y: (x + y) - x, a, b, kind="half")
    ha, hb = a.astype(np.float16), b.astype(np.float16)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(result, (ha + hb) - ha)
    assert result[1] == 0  # 2049 is not an fp16 number, and its even neighbour is 2048


def test_fp16_is_rounded_to_the_nearest_number() -> None:
    a = reals(2049.0, 2051.0, 1e-8, 65519.0, 65520.0, np.nan)
    result = mapped(lambda x: x, a, to="f16")
    np.testing.assert_array_equal(result, np.array([2048, 2052, 0, 65504, np.inf, np.nan], "f2"))


def test_comparisons_with_nan_do_not_hold() -> None:
    a, b = reals(np.nan, 1.0, np.nan), reals(1.0, np.nan, np.nan)
    for compare in (Expression.__lt__, Expression.__ge__, Expression.equals):
        assert not mapped(compare, a, b).any()
    assert mapped(Expression.differs, a, b).all()
    np.testing.assert_array_equal(mapped(e.maximum, a, b), reals(np.nan, 1.0, np.nan))


def test_functions() -> None:
    a = reals(0.3, 1.0, 2.5)
    known = {"exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "sin": np.sin}
    known |= {"cos": np.cos, "floor": np.floor, "ceil": np.ceil, "fabs": np.abs}
    known |= {
        "rsqrt": lambda x: 1 / np.sqrt(x),
        "erf": lambda x: reals(0.32862676, 0.8427008, 0.99959305),
    }
    assert known.keys() | {"round_even", "round_away"} == e.UNARY_MATH
    for name, function in known.items():
        np.testing.assert_allclose(mapped(partial(e.math, name), a), function(a), rtol=1e-6)
    pairs = {"atan2": np.arctan2, "fmod": np.fmod, "pow": np.power}
    assert pairs.keys() == e.BINARY_MATH
    for name, function in pairs.items():
        first = a if name == "pow" else -a
        result, expected = mapped(partial(e.math, name), first, a[::-1]), function(first, a[::-1])
        np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_bits_are_preserved() -> None:
    a = reals(1.0, -0.0, np.nan)
    result = mapped(lambda x: e.bitcast(x, "int"), a)
    np.testing.assert_array_equal(result, a.view(np.int32))


def steps_of(number: int, most: int) -> tuple[int, int]:
    """Return what the kernel below computes, as a program for one work-item."""
    total = 0
    for turn in range(number % 5, most):
        if turn % 3 == 0:
            total += number
        else:
            for _ in range(0, turn, number % 4 + 1):
                total += turn
        if total > 90:
            return total, -1
    return total, number


def test_each_work_item_goes_its_own_way() -> None:
    kernel, (x,) = kernel_of("ways", (301,), (7,))
    totals, ends = (kernel.pointer(n, DType.I32, None, True) for n in ("totals", "ends"))
    total = kernel.variable(const(0), "total")
    with kernel.loop(11, start=x % 5) as turn:
        with kernel.when((turn % 3).equals(0)) as branch:
            kernel.add(total, x)
        with kernel.otherwise(branch), kernel.loop(turn, step=x % 4 + 1):
            kernel.add(total, turn)
        with kernel.when(total > 90):
            kernel.store(totals, x, total)
            kernel.store(ends, x, const(-1))
            kernel.emit(Leave())
    kernel.store(totals, x, total)
    kernel.store(ends, x, x)
    result = play(plan_of([kernel], {}, {"totals": "i32[301]", "ends": "i32[301]"}), {})
    pairs = zip(result["totals"].tolist(), result["ends"].tolist(), strict=True)
    assert list(pairs) == [steps_of(number, 11) for number in range(301)]


def test_parts_are_shared_within_a_statement_and_not_beyond() -> None:
    kernel, (x,) = kernel_of("shared", (4,))
    target = kernel.pointer("dst", DType.I32, None, True)
    count = kernel.variable(x, "count")
    double = count * 2
    kernel.store(target, x * 2, double + double)
    kernel.set(count, x + 10)
    kernel.store(target, x * 2 + 1, double)
    result = play(plan_of([kernel], {}, {"dst": "i32[8]"}), {})["dst"]
    assert result.reshape(4, 2).tolist() == [[4 * n, 2 * (n + 10)] for n in range(4)]


def test_vectors() -> None:
    kernel, (x,) = kernel_of("vectors", (2,))
    source, target = floats(kernel, "src"), floats(kernel, "dst", True)
    four = kernel.let(load(source, x, "float", 4), "four")
    eight = kernel.let(vector(four, e.widen(four.lane(1), 4)), "eight")
    kernel.store(target, x * 2, eight.part(0, 4) + eight.part(1, 4))
    kernel.store(target, x * 2 + 1, where(four < 3.0, four, const(0.0, "float", 4)))
    inputs = {"src": np.arange(8, dtype=np.float32)}
    result = play(plan_of([kernel], inputs, {"dst": "f32[16]"}), inputs)["dst"].reshape(4, 4)
    assert result.tolist() == [[1, 2, 3, 4], [0, 1, 2, 0], [9, 10, 11, 12], [0, 0, 0, 0]]


def test_dot_products() -> None:
    kernel, (x,) = kernel_of("dots", (3,))
    bytes_, weights = (kernel.pointer(n, DType.I32, None) for n in ("bytes", "weights"))
    total = kernel.variable(const(7, "int", 4), "total")
    kernel.emit(DotAccumulate(total, *(load(p, x, "int", 4) for p in (bytes_, weights))))
    kernel.store(kernel.pointer("dst", DType.I32, None, True), x, total)
    generator = np.random.default_rng(3)
    a = generator.integers(0, 256, (12, 4)).astype(np.uint8)
    b = generator.integers(-128, 128, (12, 4)).astype(np.int8)
    inputs = {"bytes": a.view(np.int32)[:, 0], "weights": b.view(np.int32)[:, 0]}
    result = play(plan_of([kernel], inputs, {"dst": "i32[12]"}), inputs)["dst"]
    np.testing.assert_array_equal(result, 7 + (a.astype(int) * b).sum(1))


@pytest.mark.parametrize(
    ("zero", "expected"),
    [
        (10, [0, 0, 0, 8, 10, 10, 12, 12, 13, 110, 110, 110, 0, 110, 0, 11]),
        (None, [0, 0, 0, 0, 0, 1, 2, 3, 3, 100, 100, 100, 0, 100, 0, 1]),
    ],
)
def test_floats_become_bytes(zero: int | None, expected: list[int]) -> None:
    """Floats are rounded to even and offset by `zero`, or ties go up; low values become the first
    byte.
    """
    kernel, _ = kernel_of("bytes", (1,))
    source = floats(kernel, "src")
    halves = [load(source, part, "float", 8) for part in (0, 1)]
    to = None if zero is None else const(zero)
    target = kernel.pointer("dst", DType.U8, None, True)
    kernel.emit(StoreRounded(target, const(3), *halves, const(100.0), to))
    kernel.store(target, 0, const(1))
    kernel.store(target, 1, const(1))
    kernel.store(target, 2, const(1))
    numbers = [-1e30, -300, -10.6, -2.5, -0.4, 0.5, 1.5, 2.5, 3.4, 99.7, 100.2, 1e30]
    inputs = {"src": reals(*numbers, -np.inf, np.nan, -11.0, 0.9)}
    result = play(plan_of([kernel], inputs, {"dst": "u8[19]"}), inputs)["dst"]
    assert result.tolist() == [1, 1, 1, *expected]


def test_both_parts_of_vectors_are_stored_as_bytes() -> None:
    kernel, _ = kernel_of("block", (1,))
    source = floats(kernel, "src")
    eights = [load(source, part, "float", 8) for part in range(4)]
    target = kernel.pointer("dst", DType.U8, None, True)
    kernel.emit(StoreRoundedBlock(target, const(0), const(20), *eights, const(100.0), const(10)))
    kernel.store(target, 4, const(1, "int", 4))
    numbers = np.random.default_rng(2).uniform(-20, 120, (4, 2, 4)).astype(np.float32)
    numbers[:, :, 0] = 0.5
    inputs = {"src": numbers.ravel()}
    result = play(plan_of([kernel], inputs, {"dst": "u8[36]"}), inputs)["dst"]
    expected = np.clip(np.rint(np.minimum(numbers, 100)) + 10, 0, 255).astype(np.uint8)
    assert result[:16].tolist() == expected[:, 0].ravel().tolist()
    assert result[16:20].tolist() == [1, 1, 1, 1]
    assert result[20:].tolist() == expected[:, 1].ravel().tolist()


def test_taps_are_transposed_bytes() -> None:
    kernel, (x,) = kernel_of("taps", (2,))
    source, own = kernel.pointer("src", DType.I32, None), kernel.private_array("own", DType.I32, 9)
    with kernel.loop(9) as i:
        kernel.store(own, i, load(source, x * 9 + i, "int"))
    kernel.store(kernel.pointer("dst", DType.I32, None, True), x, load_taps(own, 2, 3))
    words = np.random.default_rng(5).integers(LEAST, MOST, 18).astype(np.int32)
    inputs = {"src": words}
    result = play(plan_of([kernel], inputs, {"dst": "i32[16]"}), inputs)["dst"].reshape(2, 8)
    for item in (0, 1):
        own_words = words[9 * item : 9 * item + 9]
        parts = [own_words[at : at + 4].view(np.uint8).reshape(4, 4) for at in (2, 5)]
        expected = [np.ascontiguousarray(part.T).view(np.int32)[:, 0] for part in parts]
        np.testing.assert_array_equal(result[item], np.concatenate(expected))


def matrices(seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return tuple(generator.integers(-8, 9, (rows, 16)).astype(np.float16) for rows in (16, 8))


def test_a_product_of_matrices() -> None:
    """Two warps of a group multiply; the stored result has the layout that the statement
    documents.
    """
    kernel, (x,) = kernel_of("matrix", (64,), (64,))
    rows, columns = (kernel.pointer(name, DType.F16, None) for name in ("rows", "columns"))
    warp, lane = x // 32, x % 32
    place = kernel.let(warp * 64 + lane // 4 * 4 + lane % 4, "place")
    total = kernel.variable(const(0.5, "float", 4), "total")
    factor = load_words(columns, warp * 32 + lane)
    upper, lower = load_words(rows, place), load_words(rows, place + 32)
    kernel.emit(MatrixMultiply(total, upper, lower, factor))
    kernel.store(floats(kernel, "dst", True), x, total)
    pairs = [matrices(seed) for seed in (1, 2)]
    inputs = {"rows": np.stack([a for a, _ in pairs]), "columns": np.stack([b for _, b in pairs])}
    result = play(plan_of([kernel], inputs, {"dst": "f32[256]"}), inputs)["dst"]
    for (a, b), part in zip(pairs, result.reshape(2, 8, 4, 2, 2), strict=True):
        product = a.astype(np.float32) @ b.astype(np.float32).T + 0.5
        np.testing.assert_array_equal(part[:, :, 0].reshape(8, 8), product[:8])
        np.testing.assert_array_equal(part[:, :, 1].reshape(8, 8), product[8:])


def test_a_product_with_diagonals() -> None:
    """Each of eight channels is multiplied by its own weight: work-items on the diagonal select
    theirs.
    """
    kernel, (x,) = kernel_of("diagonal", (32,), (32,))
    source = kernel.pointer("rows", DType.F16, None)
    upper, lower = (kernel.let(load_words(source, x + 32 * n), "rows") for n in (0, 1))
    weights = [load(kernel.pointer(name, DType.I32, None), x // 4, "int") for name in ("a", "b")]
    line, quarter = x // 4, x % 4
    low = where((line % 2).equals(0), 0x4410, 0x1044)  # into the lower or the upper half of a word
    pick = where((line // 2).equals(quarter), low, 0x4444)
    total = kernel.variable(const(0.0, "float", 4), "total")
    parts = [part.lane(half) for half in (0, 1) for part in (upper, lower)]
    kernel.emit(DiagonalMultiply(total, *parts, *weights, pick))
    kernel.store(floats(kernel, "dst", True), x, total)
    generator = np.random.default_rng(9)
    rows = generator.integers(-8, 9, (2, 8, 4, 4)).astype(np.float16)  # part, row, quarter, halves
    factors = generator.integers(-8, 9, (2, 8)).astype(np.float16)
    words = [np.stack([one, one], 1).view(np.int32)[:, 0] for one in factors]
    inputs = {"rows": rows, "a": words[0], "b": words[1]}
    result = play(plan_of([kernel], inputs, {"dst": "f32[128]"}), inputs)["dst"].reshape(8, 4, 2, 2)
    for part in (0, 1):
        first, second = (rows[part, :, :, 2 * n : 2 * n + 2].reshape(8, 8) for n in (0, 1))
        expected = first.astype(np.float32) * factors[0] + second.astype(np.float32) * factors[1]
        np.testing.assert_array_equal(result[:, :, part].reshape(8, 8), expected)


def test_fp16_pairs_in_words() -> None:
    kernel, (x,) = kernel_of("pack", (2,))
    words = kernel.let(pack_halves(load(floats(kernel, "src"), x, "float", 4)), "words")
    kernel.store(floats(kernel, "dst", True), x, unpack_halves(words))
    inputs = {"src": reals(1.0, 2049.0, 2051.0, -1e-8, 0.1, 1e5, -2.0, 3.0)}
    result = play(plan_of([kernel], inputs, {"dst": "f32[8]"}), inputs)["dst"]
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(result, inputs["src"].astype(np.float16).astype(np.float32))


def test_neighbours_exchange_along_the_first_axis() -> None:
    kernel, (x, y) = kernel_of("exchange", (16, 4), (16, 2))
    mine = kernel.let(convert(y * 16 + x, "float"), "mine")
    kernel.store(floats(kernel, "dst", True), y * 16 + x, subgroup_exchange(mine, 2))
    result = play(plan_of([kernel], {}, {"dst": "f32[64]"}), {})["dst"]
    np.testing.assert_array_equal(result, np.arange(64) ^ 2)


def test_shifts_end_at_the_edge_of_a_subgroup() -> None:
    kernel, (x,) = kernel_of("shift", (64,), (64,))
    source = kernel.pointer("src", DType.F16, None)
    words = kernel.let(load_words(source, x), "words")
    for title, distance in (("before", -4), ("behind", 4)):
        moved = unpack_halves(subgroup_shift(words, distance))
        kernel.store(floats(kernel, title, True), x, moved.lane(0))
    inputs = {"src": np.repeat(np.arange(64), 4).astype(np.float16)}
    result = play(plan_of([kernel], inputs, {"before": "f32[64]", "behind": "f32[64]"}), inputs)
    own = np.arange(64).reshape(2, 32)
    before, behind = own.copy(), own.copy()
    before[:, 4:], behind[:, :-4] = own[:, :-4], own[:, 4:]
    np.testing.assert_array_equal(result["before"].reshape(2, 32), before)
    np.testing.assert_array_equal(result["behind"].reshape(2, 32), behind)


@pytest.mark.parametrize("size", [8, 32])
def test_a_kernel_learns_how_many_exchange(size: int) -> None:
    kernel, (x,) = kernel_of("asks", (64,), (64,))
    kernel.store(kernel.pointer("dst", DType.I32, None, True), x, subgroup_size())
    plan = plan_of([kernel], {}, {"dst": "i32[64]"})
    assert (Player(NULL_GPU, plan, subgroup=size).run([])[0] == size).all()


def test_local_memory_belongs_to_a_group() -> None:
    kernel, (x,) = kernel_of("groups", (4096 * 3,), (64,))
    shared, lane = kernel.local_array("shared", "int", 1, 64), kernel.local_id(0)
    kernel.store(shared, const(63) - lane, x)
    kernel.barrier()
    kernel.store(kernel.pointer("dst", DType.I32, None, True), x, load(shared, lane, "int"))
    result = play(plan_of([kernel], {}, {"dst": f"i32[{4096 * 3}]"}), {})["dst"].reshape(-1, 64)
    np.testing.assert_array_equal(result, np.arange(4096 * 3).reshape(-1, 64)[:, ::-1])


def test_sizes_are_given_at_the_launch() -> None:
    kernels = []
    for count, title in ((3, "few"), (5, "many")):
        kernel = Kernel("fill", literal=False)
        (x,) = kernel.ids(count, local=(4,))
        factor = kernel.number("factor", 0.5 * count)
        kernel.store(floats(kernel, title, True), x, convert(x, "float") * factor)
        kernels.append(kernel)
    result = play(plan_of(kernels, {}, {"few": "f32[3]", "many": "f32[5]"}), {})
    np.testing.assert_array_equal(result["few"], np.arange(3) * 1.5)
    np.testing.assert_array_equal(result["many"], np.arange(5) * 2.5)
