"""Damaged model files: only a FourfoldError comes out, soon and at little cost."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tflite_writer import Level, Operator, Signature, Sparsity, Tensor, constant, write

from fourfold.errors import FourfoldError
from fourfold.formats import read_model

SHARED = Path(__file__).resolve().parents[3] / "shared" / "conformance" / "tflite"
ROUNDS = 5000  # mutations of each file that the writer makes
SHARED_ROUNDS = 60  # of each small file of the shared folder
SECONDS = 3.0  # for one file: a loop that trusts a length takes far longer
WORDS = (0, 1, 2, 3, 4, 7, 8, 16, 100, 255, 1000, 2**16, 2**20, 2**28, 2**31 - 1, 2**31, 2**32 - 1)
NOT_NUMBERS = (0x7F800000, 0x7FC00000)


def _convolution() -> bytes:
    weights = np.linspace(-1, 1, 2 * 3 * 3 * 2, dtype=np.float32).reshape(2, 3, 3, 2)
    fields = {"StrideH": 2, "StrideW": 1, "FusedActivationFunction": 3}
    tensors = [
        Tensor("x", (1, 5, 7, 2), signature=(-1, 5, 7, 2)),
        Tensor("w", weights.shape, data=weights),
        constant("b", [1, 2], "float32"),
        Tensor("c", (1, 3, 7, 2)),
        constant("axes", [1, 2]),
        Tensor("y", (1, 2)),
    ]
    operators = [
        Operator("CONV_2D", ["x", "w", "b"], ["c"], "Conv2DOptions", fields),
        Operator("MEAN", ["c", "axes"], ["y"], "ReducerOptions", {"KeepDims": False}),
    ]
    signatures = [Signature("serve", {"image": 0}, {"scores": 5})]
    return write(tensors, operators, ["x"], ["y"], signatures=signatures, metadata={"m": b"1234"})


def _shapes() -> bytes:
    tensors = [
        Tensor("x", (2, 3, 4)),
        Tensor("shape", (3,), "int32"),
        *(constant(name, value) for name, value in (("b", [0]), ("e", [1]), ("s", [1]))),
        Tensor("n", (), "int32"),
        constant("rest", 12),
        Tensor("target", (2,), "int32"),
        Tensor("r", (2, 12)),
        constant("pads", [[0, 0], [1, 2]]),
        Tensor("p", (2, 15)),
        constant("times", [2, 3]),
        Tensor("y", (4, 45)),
    ]
    fields = {"ShrinkAxisMask": 1}
    operators = [
        Operator("SHAPE", ["x"], ["shape"], "ShapeOptions", {"OutType": 2}),
        Operator("STRIDED_SLICE", ["shape", "b", "e", "s"], ["n"], "StridedSliceOptions", fields),
        Operator("PACK", ["n", "rest"], ["target"], "PackOptions", {"ValuesCount": 2}),
        Operator("RESHAPE", ["x", "target"], ["r"]),
        Operator("PAD", ["r", "pads"], ["p"]),
        Operator("TILE", ["p", "times"], ["y"]),
    ]
    return write(tensors, operators, ["x"], ["y"])


def _weights() -> bytes:
    level = Level(segments=np.array([0, 1, 3], np.int32), indices=np.array([1, 0, 2], np.uint8))
    sparsity = Sparsity([0, 1], [Level(2), level])
    stored = np.arange(6, dtype=np.int8).reshape(3, 2)
    tensors = [
        Tensor("x", (1, 3)),
        Tensor("s", (2, 3), data=np.ones(3, np.float32), sparsity=sparsity),
        Tensor("d", (2, 3)),
        Tensor("u", (1, 2)),
        Tensor("q", (3, 2), "int8", stored, (0.5, 0.25, 1.0), (0, 0, 0)),
        Tensor("v", (1, 3)),
        constant("size", [1, 3]),
        constant("value", 2.0, "float32"),
        Tensor("f", (1, 3)),
        Tensor("y", (1, 3)),
    ]
    operators = [
        Operator("DENSIFY", ["s"], ["d"]),
        Operator("FULLY_CONNECTED", ["x", "d", None], ["u"], "FullyConnectedOptions"),
        Operator("FULLY_CONNECTED", ["u", "q", None], ["v"], "FullyConnectedOptions"),
        Operator("FILL", ["size", "value"], ["f"]),
        Operator("MUL", ["v", "f"], ["y"], "MulOptions", {"FusedActivationFunction": 1}),
    ]
    return write(tensors, operators, ["x"], ["y"])


WRITTEN: dict[str, Callable[[], bytes]] = {
    "convolution": _convolution,
    "shapes": _shapes,
    "weights": _weights,
}


def mutate(data: bytes, rng: random.Random) -> bytes:
    """A few changes: bits, bytes, words, or the end cut off. The magic stays as it is."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
        kind = rng.random()
        place = rng.randrange(len(changed))
        if kind < 0.4:
            changed[place] ^= 1 << rng.randrange(8)
        elif kind < 0.5:
            changed[place] = rng.randrange(256)
        elif kind < 0.95:
            word = rng.choice(WORDS + NOT_NUMBERS)
            start = place & ~3
            changed[start : start + 4] = struct.pack("<I", word)[: len(changed) - start]
        else:
            del changed[max(place, 8) :]
    changed[4:8] = b"TFL3"
    return bytes(changed)


def damage_found(data: bytes) -> FourfoldError | None:
    try:
        read_model(data)
    except FourfoldError as error:
        return error
    return None


def attack(data: bytes, seed: int, rounds: int) -> None:
    for number in range(rounds):
        damaged = mutate(data, random.Random(f"{seed} {number}"))
        start = time.perf_counter()
        error = damage_found(damaged)
        assert error is None or (error.what and error.why and error.fix)
        assert time.perf_counter() - start < SECONDS, f"mutation {number} of seed {seed}"


@pytest.mark.parametrize("name", WRITTEN)
def test_whole_files_are_read(name: str) -> None:
    assert read_model(WRITTEN[name]()).main.outputs == ("y",)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", WRITTEN)
def test_mutations_of_written_files(name: str, seed: int) -> None:
    attack(WRITTEN[name](), seed, ROUNDS)


@pytest.mark.parametrize("name", WRITTEN)
def test_every_truncation(name: str) -> None:
    data = WRITTEN[name]()
    found = [damage_found(data[:length]) for length in range(len(data))]
    assert all(error is not None for error in found[: len(data) // 2])


@cache
def _shared_files() -> tuple[Path, ...]:
    files = [path for path in SHARED.rglob("*") if path.suffix in (".tflite", ".bin")]
    return tuple(sorted(path for path in files if path.stat().st_size < 12_000))


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared conformance files are not here")
@pytest.mark.parametrize("part", range(4))
def test_mutations_of_shared_files(part: int) -> None:
    for path in _shared_files()[part::4]:
        attack(path.read_bytes(), part, SHARED_ROUNDS)
