"""Files of one TFLite operator: the references agree with LiteRT."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from runtimes import interpreter, run
from tflite_writer import Operator, Tensor, constant, write

from fourfold.backends.cpu.reference import evaluate
from fourfold.formats import read_model
from fourfold.types import TensorType

RANDOM = np.random.default_rng(11)


def weights(name: str, *shape: int) -> Tensor:
    return constant(name, RANDOM.uniform(-1, 1, shape), "float32")


def out(*shape: int, dtype: str = "float32", name: str = "y") -> Tensor:
    return Tensor(name, shape, dtype)


def draw(type: TensorType, low: float, high: float) -> np.ndarray:
    """Return random numbers from low to high, inclusive for integers."""
    if type.dtype.value == "bool":
        return RANDOM.uniform(size=type.shape) < 0.5
    if type.dtype.is_integer:
        result = RANDOM.integers(int(low), int(high), type.shape, endpoint=True)
        return result.astype(type.dtype.numpy)
    return RANDOM.uniform(low, high, type.shape).astype(type.dtype.numpy)


def litert(model: bytes, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Run LiteRT's own kernels, without a delegate."""
    return run(interpreter("ai_edge_litert", model), inputs)


def check(operator: Operator, *tensors: Tensor, low: float = -2.0, high: float = 2.0) -> None:
    """Check an operator; tensors without data that it reads are the inputs."""
    free = [t.name for t in tensors if t.data is None]
    read = [name for name in free if name in operator.inputs]
    data = write(tensors, [operator], read, operator.outputs)
    graph = read_model(data).main
    inputs = {name: draw(graph.types[name], low, high) for name in graph.inputs}
    expected_value = litert(data, list(inputs.values()))
    for array, expected in zip(evaluate(graph, inputs).values(), expected_value, strict=True):
        assert array.shape == expected.shape
        assert array.dtype == expected.dtype
        np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-5)
