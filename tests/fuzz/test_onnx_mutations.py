"""Damaged ONNX files raise only a FourfoldError, quickly and with little memory."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from fuzz.attack import damage_found
from model_collection import ONNX, needs_models
from onnx_writer import graph, helper, model, node, small_model, value

from fourfold.formats import ReadOptions, read_model
from fourfold.formats.protobuf import varint

ROUNDS = 4000  # mutations of each file
MEMORY = 256 << 20  # bytes that reading one file may use
NUMBERS = (0, 1, 2, 3, 7, 16, 127, 128, 255, 2**16, 2**31 - 1, 2**31, 2**63 - 1, 2**64 - 1)


def _image() -> bytes:
    weights = np.linspace(-1, 1, 3 * 2 * 9, dtype=np.float32).reshape(3, 2, 3, 3)
    numbers = np.arange(1, 4, dtype=np.float32)
    constants = {"w": weights, "b": numbers, "s": numbers, "m": numbers, "v": numbers}
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 0, 0], strides=[2, 1], dilations=[1, 1]),
        node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]),
        node("Clip", ["n"], ["r"]),
        node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], ceil_mode=1),
        node("GlobalAveragePool", ["p"], ["g"]),
        node("Flatten", ["g"], ["y"]),
    ]
    return model(graph(nodes, [("x", "float", (1, 2, 6, 7))], [("y", "float", None)], constants))


def _shapes() -> bytes:
    constants = {
        "one": np.array([1], np.int64),
        "rest": np.array([-1, 4], np.int64),
        "pads": np.array([0, 1, 0, 2], np.int64),
    }
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "one"], ["n"]),
        node("ConstantOfShape", ["n"], ["z"]),
        node("Concat", ["one", "n", "one"], ["target"], axis=0),
        node("Identity", ["rest"], ["t"]),
        node("Reshape", ["x", "t"], ["r"]),
        node("Pad", ["r", "pads"], ["p"]),
        node("Unsqueeze", ["p", "one"], ["u"]),
        node("Expand", ["u", "target"], ["e"]),
        node("ReduceSum", ["e", "one"], ["y"]),
    ]
    inputs = [("x", "float", ("N", 3, 4))]
    return model(graph(nodes, inputs, [("y", "float", None), ("z", "float", None)], constants))


def _calls() -> bytes:
    inner = helper.make_graph([node("Relu", ["x"], ["r"])], "b", [], [value("r", "float", None)])
    twice = helper.make_function(
        "own",
        "Twice",
        ["a"],
        ["b"],
        [node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 17)],
    )
    nodes = [
        node("Constant", [], ["c"], value=helper.make_tensor("t", 9, (), [True])),
        helper.make_node("If", ["c"], ["i"], then_branch=inner, else_branch=inner),
        helper.make_node("Twice", ["i"], ["t"], domain="own"),
        node("LSTM", ["t", "w", "r"], ["", "y"], hidden_size=2),
    ]
    constants = {
        "w": np.ones((1, 8, 3), np.float32),
        "r": np.ones((1, 8, 2), np.float32),
    }
    inputs, outputs = [("x", "float", (4, 1, 3))], [("y", "float", None)]
    return model(graph(nodes, inputs, outputs, constants), functions=[twice])


WRITTEN: dict[str, Callable[[], bytes]] = {"image": _image, "shapes": _shapes, "calls": _calls}


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Apply a few changes: bits, bytes, numbers, repeated pieces, or a truncated end."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
        kind, place = rng.random(), rng.randrange(len(changed))
        if kind < 0.4:
            changed[place] ^= 1 << rng.randrange(8)
        elif kind < 0.6:
            changed[place] = rng.randrange(256)
        elif kind < 0.8:
            changed[place : place + rng.randrange(3)] = varint(rng.choice(NUMBERS))
        elif kind < 0.95:
            piece = changed[place : place + rng.randrange(1, 40)]
            target = rng.randrange(len(changed))
            changed[target : target + rng.choice((0, len(piece)))] = piece
        else:
            del changed[max(place, 1) :]
    return bytes(changed)


def attack(data: bytes, seed: int, rounds: int) -> None:
    for number in range(rounds):
        damaged = mutate(data, random.Random(f"{seed} {number}"))
        damage_found(damaged, ReadOptions(keep_unsupported=number % 2 == 1))


@pytest.mark.parametrize("name", WRITTEN)
def test_undamaged_files_are_read(name: str) -> None:
    assert read_model(WRITTEN[name]()).output_names[0] == "y"


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", WRITTEN)
def test_damaged_files_raise_only_our_errors(name: str, seed: int) -> None:
    attack(WRITTEN[name](), seed, ROUNDS)


@pytest.mark.parametrize("name", WRITTEN)
def test_truncated_files_raise_only_our_errors(name: str) -> None:
    data = WRITTEN[name]()
    results = [damage_found(data[:length]) for length in range(len(data))]
    assert all(error is not None for error in results[: len(data) // 2])


@pytest.mark.parametrize(
    "data",
    [
        small_model(
            "MaxUnpool",
            {"x": (1, 1, 2, 2)},
            {"at": np.zeros((1, 1, 2, 2), np.int64)},
            kernel_shape=[2, 2],
            strides=[20000, 20000],
        ),
        small_model(
            "ConvTranspose",
            {"x": (1, 1, 2, 2)},
            {"w": np.ones((1, 1, 3, 3), np.float32)},
            dilations=[10000, 10000],
        ),
    ],
)
def test_huge_sizes_are_rejected_before_allocation(data: bytes) -> None:
    tracemalloc.start()
    try:
        assert damage_found(data) is not None
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()


@needs_models
def test_damaged_real_model_raises_only_our_errors() -> None:
    attack((ONNX / "super_resolution.onnx").read_bytes(), 0, 60)
