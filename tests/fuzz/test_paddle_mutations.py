"""Damaged Paddle models raise only a FourfoldError, quickly and with little memory."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from fuzz.attack import attack, damage_found, mutate_bytes
from paddle_cases import CASES, pir_model
from paddle_writer import Operator, Program, parameters_file, program_file, write_model

ROUNDS = 2500  # for protobuf programs, and for JSON programs
NAMES = ("conv_groups", "pool_average_ceil_all", "slice", "expand", "batch_norm", "split")
NUMBERS = (0, 1, 2, 5, 8, 10, 26, 34, 127, 128, 200, 255)
WORDS = ("-1", "0", "99999999999", "null", "true", '"x"', "[", "]", "{", "}", "1e999", "[[]]", "{}")


def mutate_json(rng: random.Random, text: str) -> str:
    """Replace a word between punctuation marks, or truncate the end."""
    marks = [at for at, letter in enumerate(text) if letter in ",:[]{}"]
    for _ in range(rng.randrange(1, 3)):
        first = rng.randrange(200, len(marks) - 1)
        if marks[first] >= len(text) - 20:
            continue
        start, end = marks[first] + 1, marks[first + 1]
        text = text[:start] + rng.choice(WORDS) + text[end:]
        marks = [at for at, letter in enumerate(text) if letter in ",:[]{}"]
    return text[: rng.randrange(200, len(text))] if rng.random() < 0.05 else text


@pytest.mark.parametrize("name", NAMES)
def test_damaged_programs_raise_only_our_errors(name: str, tmp_path: Path) -> None:
    rng, program = random.Random(name), CASES[name].program
    path, content = write_model(tmp_path, program), program_file(program)
    assert damage_found(path) is None
    attack(path, path, lambda: mutate_bytes(rng, content, NUMBERS), ROUNDS // len(NAMES))


def test_damaged_parameters_raise_only_our_errors(tmp_path: Path) -> None:
    rng, program = random.Random(1), CASES["batch_norm"].program
    path, content = write_model(tmp_path, program), parameters_file(program.parameters)
    parameters = path.with_suffix(".pdiparams")
    attack(path, parameters, lambda: mutate_bytes(rng, content, NUMBERS), ROUNDS // 5)


def test_damaged_json_raises_only_our_errors(tmp_path: Path) -> None:
    rng, path = random.Random(2), pir_model().write(tmp_path)
    text = path.read_text()
    attack(path, path, lambda: mutate_json(rng, text).encode(), ROUNDS)


def chain(operators: list[tuple[str, dict[str, object]]]) -> Program:
    """Return a program of consecutive operators."""
    created = [
        Operator(kind, {"X": [f"v{i}"]}, {"Out": [f"v{i + 1}"]}, attributes)
        for i, (kind, attributes) in enumerate(operators)
    ]
    return Program({"v0": (1, 1, 8, 8)}, {}, created, [f"v{len(created)}"])


def adaptive(height: int, width: int) -> dict[str, object]:
    return {"ksize": [height, width], "pooling_type": "avg", "adaptive": True}


def steps(start: float, end: float, step: float, dtype: type = np.float32) -> Program:
    """Return a range whose limits are parameters."""
    numbers = {"start": start, "end": end, "step": step}
    parameters = {name: np.array([number], dtype) for name, number in numbers.items()}
    inputs = {"Start": ["start"], "End": ["end"], "Step": ["step"]}
    return Program({"x": (1,)}, parameters, [Operator("range", inputs, {"Out": ["y"]})], ["y"])


@pytest.mark.parametrize(
    "program",
    [
        steps(0, 2**24, 1, np.int64),
        steps(0, 1, 1e-8),
        steps(0, float("inf"), 1),
        steps(float("nan"), 1, 1),
        steps(0, 1, 0),
        Program({"x": (1, 2**31, 2**31)}, {}, [], ["x"]),
        Program({"x": (1, 2**62, 4)}, {}, [], ["x"]),
        chain([("tile", {"repeat_times": [2**20, 2**20, 1, 1]})]),
        chain([("expand_v2", {"shape": [2**30, 2**30, 8, 8]})]),
        chain([("nearest_interp_v2", {"out_h": 2**30, "out_w": 2**30})]),
        chain([("pool2d", adaptive(2**30, 2**30))]),
        Program(
            {"x": (1, 1, 8, 100003)},
            {},
            [Operator("pool2d", {"X": ["x"]}, {"Out": ["y"]}, adaptive(8, 9973))],
            ["y"],
        ),
        chain([("pool2d", {"ksize": [3, 3], "paddings": [2**30, 2**30]})]),
        chain([("fill_any_like", {"dtype": 99}), ("unsqueeze2", {"axes": [0] * 5000})]),
        chain([("fill_constant", {"dtype": 5, "shape": [2**15, 2**15], "value": 1.0})]),
        chain([("pad3d", {"paddings": [2**30] * 4})]),
    ],
)
def test_malicious_programs_are_rejected(program: Program, tmp_path: Path) -> None:
    assert damage_found(write_model(tmp_path, program)) is not None


def test_rejects_programs_that_read_their_own_results(tmp_path: Path) -> None:
    operators = [
        Operator("relu", {"X": ["b"]}, {"Out": ["a"]}),
        Operator("relu", {"X": ["a"]}, {"Out": ["b"]}),
    ]
    path = write_model(tmp_path, Program({"x": (1,)}, {}, operators, ["b"]))
    assert damage_found(path) is not None
