"""Invalid files raise one ModelError that names the cause, without a crash or excessive memory."""

from __future__ import annotations

import sys
import tracemalloc
from contextlib import suppress
from types import FrameType
from typing import Any

import numpy as np
import pytest
from tflite_writer import Level, Operator, Sparsity, Subgraph, Tensor, constant, write, write_model

from fourfold.errors import FourfoldError, ModelError, UnsupportedError
from fourfold.formats import ReadOptions, read_model

X, U, Y = (Tensor(name, (1, 4)) for name in "xuy")
HUGE_Y = Tensor("y", (2**20, 2**20))
RELU = Operator("RELU", ["x"], ["y"])
POOL = {"FilterHeight": 1, "FilterWidth": 1}


def one(*operators: Operator, tensors: tuple[Tensor, ...] = (X, U, Y)) -> bytes:
    return write(tensors, operators, ["x"], ["y"])


def sparse(levels: list[Level]) -> Tensor:
    values = np.ones(2, np.float32)
    return Tensor("c", (2, 2), data=values, sparsity=Sparsity([0, 1], levels))


def segments(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


IMPOSSIBLE = {
    "order": (one(Operator("RELU", ["u"], ["y"])), "'u', which no earlier operator has written"),
    "order of unknown ops": (
        one(Operator("CUMSUM", ["u"], ["y"])),
        "'u', which no earlier operator has written",
    ),
    "cycle": (one(Operator("ADD", ["x", "y"], ["y"])), "reads a value that it writes"),
    "written twice": (one(RELU, RELU), "'y', which already has a value"),
    "input written": (one(Operator("RELU", ["y"], ["x"])), "'x', which already has a value"),
    "output missing": (one(), "no earlier operator has written"),
    "input twice": (write([X, Y], [RELU], ["x", "x"], ["y"]), "listed twice"),
    "same outputs": (one(Operator("SPLIT", ["x"], ["y", "y"])), "outputs are the same"),
    "index": (one(Operator("RELU", [99], ["y"])), "reads tensor 99"),
    "negative index": (one(Operator("RELU", [-2], ["y"])), "reads tensor -2"),
    "missing input": (one(Operator("RELU", [None], ["y"])), "input 0 is missing"),
    "too few inputs": (one(Operator("ADD", ["x"], ["y"])), "input 1 is missing"),
    "no outputs": (one(RELU, Operator("RELU", ["x"], [])), "no outputs"),
    "too many outputs": (one(Operator("RELU", ["x"], ["y", "u"])), "'u' is not an output"),
    "no graph": (write_model([]), "no graph"),
    "rank": (one(RELU, tensors=(Tensor("x", (1,) * 40), Y)), "40 dimensions"),
    "negative size": (one(RELU, tensors=(Tensor("x", (-1, 4)), Y)), "negative"),
    "huge": (one(RELU, tensors=(Tensor("x", (2**31 - 1,) * 4), Y)), "more than"),
    "options of another op": (
        one(Operator("ADD", ["x", "x"], ["y"], "Conv2DOptions")),
        "options of another op",
    ),
    "buffer size": (
        one(
            Operator("ADD", ["x", "c"], ["y"]),
            tensors=(X, Y, Tensor("c", (1, 4), data=np.zeros(3, np.float32))),
        ),
        "constant 'c'.*needs 4 elements",
    ),
    "odd buffer": (
        one(
            Operator("ADD", ["x", "c"], ["y"]),
            tensors=(X, Y, Tensor("c", (1, 4), data=np.zeros(17, np.uint8))),
        ),
        "not a multiple",
    ),
    "shapes": (
        one(Operator("ADD", ["x", "c"], ["y"]), tensors=(X, Y, constant("c", [1, 2], "float32"))),
        "do not broadcast",
    ),
    "zero stride": (
        one(
            Operator("MAX_POOL_2D", ["x"], ["y"], "Pool2DOptions", POOL),
            tensors=(Tensor("x", (1, 2, 2, 1)), Y),
        ),
        "stride",
    ),
    "scale": (
        one(
            Operator("FULLY_CONNECTED", ["x", "w"], ["y"]),
            tensors=(X, Y, Tensor("w", (4, 4), "int8", np.zeros((4, 4), np.int8), (np.nan,), (0,))),
        ),
        "not a finite number",
    ),
    "scales": (
        one(
            Operator("FULLY_CONNECTED", ["x", "w"], ["y"]),
            tensors=(X, Y, Tensor("w", (4, 4), "int8", np.zeros((4, 4), np.int8), (1, 1), (0, 0))),
        ),
        "2 scales along axis 0",
    ),
    "reshape": (
        one(Operator("RESHAPE", ["x", "s"], ["y"]), tensors=(X, Y, constant("s", [-1, -1]))),
        "not valid",
    ),
    "reshape count": (
        one(Operator("RESHAPE", ["x", "s"], ["y"]), tensors=(X, Y, constant("s", [3, 3]))),
        "do not fill",
    ),
    "gather": (
        one(Operator("GATHER", ["x", "i"], ["y"]), tensors=(X, Y, constant("i", [7]))),
        "its index at",
    ),
    "range": (
        one(
            Operator("RANGE", ["a", "b", "c"], ["y"]),
            tensors=(
                X,
                Y,
                *(constant(n, v, "float32") for n, v in zip("abc", (0, 1, 0), strict=True)),
            ),
        ),
        "step not zero",
    ),
    "sparse place": (
        one(
            Operator("DENSIFY", ["c"], ["y"]),
            tensors=(
                X,
                Y,
                sparse([Level(2), Level(segments=segments(0, 1, 2), indices=segments(0, 9))]),
            ),
        ),
        "invalid indices",
    ),
    "sparse segments": (
        one(
            Operator("DENSIFY", ["c"], ["y"]),
            tensors=(
                X,
                Y,
                sparse([Level(2), Level(segments=segments(0, 5, 2), indices=segments(0, 1))]),
            ),
        ),
        "invalid indices",
    ),
    "sparse size": (
        one(Operator("DENSIFY", ["c"], ["y"]), tensors=(X, Y, sparse([Level(2**30), Level(2)]))),
        "size of its axis",
    ),
    "sparse levels": (
        one(Operator("DENSIFY", ["c"], ["y"]), tensors=(X, Y, sparse([Level(2)]))),
        "do not match its shape",
    ),
    "huge result of an unknown op": (
        one(Operator("UNIQUE", ["x"], ["y"]), tensors=(X, HUGE_Y)),
        "more than",
    ),
    "huge constant of a custom op": (
        one(
            Operator("CUSTOM", ["x", "c"], ["y"], custom_code="Mine"),
            tensors=(X, Y, Tensor("c", (2**20, 2**20), data=np.zeros(4, np.float32))),
        ),
        "more than",
    ),
    "scale of an unknown op's result": (
        one(
            Operator("UNIQUE", ["x"], ["y"]),
            tensors=(X, Tensor("y", (1, 4), "int8", scale=[np.nan], zero_point=[0])),
        ),
        "not a finite number",
    ),
}


@pytest.mark.parametrize("keep", [False, True], ids=["", "kept for the CPU"])
@pytest.mark.parametrize(("data", "words"), IMPOSSIBLE.values(), ids=list(IMPOSSIBLE))
def test_rejects_invalid_files(data: bytes, words: str, keep: bool) -> None:
    with pytest.raises(ModelError, match=words):
        read_model(data, ReadOptions(keep_unsupported=keep))


@pytest.mark.parametrize("length", range(0, 400, 3))
def test_rejects_truncated_files(length: int) -> None:
    data = one(RELU)
    with pytest.raises(FourfoldError):
        read_model(data[: min(length, len(data) - 40)])


HUNGRY = {
    "fill": (
        Operator("FILL", ["s", "v"], ["y"]),
        (constant("s", [2**15, 2**15]), constant("v", 1, "float32")),
    ),
    "range": (
        Operator("RANGE", ["a", "b", "c"], ["y"]),
        (
            constant("a", 0, "float32"),
            constant("b", 1e9, "float32"),
            constant("c", 1e-3, "float32"),
        ),
    ),
    "zeros": (Operator("ZEROS_LIKE", ["h"], ["y"]), ()),
}


@pytest.mark.parametrize(("operator", "constants"), HUNGRY.values(), ids=list(HUNGRY))
def test_rejects_large_folded_results_without_allocating_them(
    operator: Operator, constants: tuple[Tensor, ...]
) -> None:
    tensors = (Tensor("h", (2**15, 2**15)), *constants, Y)
    tracemalloc.start()
    try:
        with pytest.raises(UnsupportedError, match="too large"):
            read_model(write(tensors, [operator], ["h"], ["y"]))
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_large_results_are_not_folded() -> None:
    tensors = (X, constant("c", [[1, 2]], "float32"), constant("m", [2**14, 2**13]), Y)
    graph = read_model(write(tensors, [Operator("TILE", ["c", "m"], ["y"])], ["x"], ["y"])).main
    assert [node.op for node in graph.nodes] == ["tile"]


def test_total_size_of_folded_results_is_limited() -> None:
    names = [f"y{i}" for i in range(60)]
    sizes = (constant("s", [2**12, 2**12]), constant("v", 0, "float32"))
    operators = [Operator("FILL", ["s", "v"], [name]) for name in names]
    tensors = (X, *sizes, *(Tensor(name, (1,)) for name in names))
    with pytest.raises(UnsupportedError, match="too large"):
        read_model(write(tensors, operators, ["x"], ["y0"]))


def count_steps(data: bytes) -> int:
    """Count the executed lines of Python while reading a file, independent of the
    machine's load.
    """
    count = 0

    def step(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += 1
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        with suppress(FourfoldError):
            read_model(data)
    finally:
        sys.settrace(before)
    return count


def test_renaming_duplicates_takes_linear_time() -> None:
    def named(count: int) -> bytes:
        return write_model([Subgraph([Tensor("same", (1,))] * count, [], [0], [0])])

    count_steps(named(1))  # warm up imports and caches
    assert count_steps(named(2000)) < 2.1 * count_steps(named(1000))


def test_rejects_overlapping_vectors_in_linear_time() -> None:
    """Vectors with an inflated length overlap, so the file lists more than it can hold."""

    def overlapping(count: int) -> bytes:
        tensors = [X, *(Tensor(f"y{i}", (1, 4)) for i in range(count))]
        operators = [Operator("ADD", ["x"] * 2, [f"y{i}"]) for i in range(count)]
        file = bytearray(write(tensors, operators, ["x"], ["y0"]))
        _lengthen(file)
        return bytes(file)

    with pytest.raises(FourfoldError):
        read_model(overlapping(3000))
    assert count_steps(overlapping(2000)) < 2.1 * count_steps(overlapping(1000))


def _lengthen(file: bytearray) -> None:
    """Inflate every vector of two zeros, so that the vectors overlap."""
    words = np.frombuffer(file, "<u4", len(file) // 4)
    offsets = np.flatnonzero((words[:-2] == 2) & (words[1:-1] == 0) & (words[2:] == 0))
    writable = np.frombuffer(file, "<u4", len(file) // 4).copy()
    writable[offsets] = len(writable) // 4
    file[: 4 * len(writable)] = writable.tobytes()
