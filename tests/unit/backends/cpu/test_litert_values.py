"""Values of all LiteRT tensors are preserved, despite shared memory and custom operators."""

from __future__ import annotations

import struct
from itertools import pairwise

import numpy as np
import pytest
from tflite_writer import Operator, Tensor, constant, write

from fourfold.backends.cpu.litert import ENGINE
from fourfold.backends.cpu.reference import evaluate
from fourfold.formats import read_model

pytestmark = pytest.mark.skipif(not ENGINE.installed(), reason="LiteRT is not installed")


def test_keeps_every_tensor_of_a_chain() -> None:
    """LiteRT would by default store each tensor in the memory of the one before it."""
    names = ["x", *(f"t{number}" for number in range(5)), "flat"]
    tensors = [Tensor(name, (1, 6, 7)) for name in names[:-1]]
    one, shape = constant("one", [1.0], "float32"), constant("shape", [1, 42])
    operators = [
        Operator("ADD", [before, "one"], [after], "AddOptions")
        for before, after in pairwise(names[:-1])
    ]
    operators.append(Operator("RESHAPE", ["t4", "shape"], ["flat"]))
    content = write([*tensors, one, shape, Tensor("flat", (1, 42))], operators, ["x"], ["flat"])
    x = np.random.default_rng(0).normal(0, 1, (1, 6, 7)).astype(np.float32)
    values = ENGINE.compute_values(read_model(content), [x])
    for number, name in enumerate(names[:-1]):
        np.testing.assert_allclose(values.value(name), x + number, rtol=1e-6)
    np.testing.assert_allclose(values.value("flat"), x.reshape(1, 42) + 5, rtol=1e-6)
    assert not values.has("nothing")


def test_custom_operators_of_xnnpack_have_values() -> None:
    generator = np.random.default_rng(1)
    weights = generator.normal(0, 1, (4, 2, 2, 6)).astype(np.float32)
    transpose = Operator(
        "CUSTOM",
        ["r", "w", "b"],
        ["y"],
        custom_code="Convolution2DTransposeBias",
        custom_options=struct.pack("<3i", 1, 2, 2),
    )
    tensors = [
        *(Tensor("x", (1, 5, 7, 6)), Tensor("r", (1, 5, 7, 6)), Tensor("y", (1, 10, 14, 4))),
        Tensor("w", weights.shape, "float32", weights),
        constant("b", [1.0, 2.0, 3.0, 4.0], "float32"),
    ]
    content = write(tensors, [Operator("RELU", ["x"], ["r"]), transpose], ["x"], ["y"])
    x = generator.normal(0, 1, (1, 5, 7, 6)).astype(np.float32)
    model = read_model(content)
    values = ENGINE.compute_values(model, [x])
    np.testing.assert_array_equal(values.value("r"), np.maximum(x, 0))
    (expected,) = evaluate(model.main, {"x": x}).values()
    np.testing.assert_allclose(values.value("y"), expected, rtol=1e-5, atol=1e-5)
