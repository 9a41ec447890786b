"""A part of a TFLite file, written as its own file, behaves the same in LiteRT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tflite_writer as writer
from model_collection import TFLITE, needs_models, or_skipped

from fourfold.formats.tflite.reader import read_file
from fourfold.formats.tflite.write import Excerpt, write_excerpt

litert = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is not installed")


def run(content: bytes, seed: int = 0) -> list[np.ndarray]:
    interpreter = litert.Interpreter(model_content=content)
    interpreter.allocate_tensors()
    generator = np.random.default_rng(seed)
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], random_array(detail, generator))
    interpreter.invoke()
    return [interpreter.get_tensor(item["index"]) for item in interpreter.get_output_details()]


def random_array(detail: dict[str, Any], generator: np.random.Generator) -> np.ndarray:
    dtype, shape = np.dtype(detail["dtype"]), tuple(detail["shape"])
    if dtype.kind == "f":
        return generator.uniform(-1, 1, shape).astype(dtype)
    return generator.integers(0, 100 if dtype.itemsize == 1 else 2, shape).astype(dtype)


def full_excerpt(content: bytes) -> Excerpt:
    file = read_file(content, "the model")
    graph = file.subgraphs[0]
    count = range(len(graph.operators))
    return Excerpt(count, graph.inputs, graph.outputs, calls=len(file.subgraphs) > 1)


@needs_models
@pytest.mark.parametrize(
    "path", or_skipped(sorted(TFLITE.glob("*.tflite"))), ids=lambda path: path.stem
)
def test_rewritten_model_returns_the_same_results(path: Path) -> None:
    content = path.read_bytes()
    again = write_excerpt(content, full_excerpt(content))
    for ours, theirs in zip(run(again), run(content), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def chain() -> bytes:
    """Return a model of y = tanh(x) * w + w."""
    weights = np.arange(4, dtype=np.float32)
    return writer.write(
        [
            writer.Tensor("x", (2, 4)),
            writer.Tensor("w", (4,), data=weights),
            writer.Tensor("t", (2, 4)),
            writer.Tensor("m", (2, 4)),
            writer.Tensor("y", (2, 4)),
        ],
        [
            writer.Operator("TANH", ["x"], ["t"]),
            writer.Operator("MUL", ["t", "w"], ["m"], "MulOptions"),
            writer.Operator("ADD", ["m", "w"], ["y"], "AddOptions", {"FusedActivationFunction": 1}),
        ],
        ["x"],
        ["y"],
    )


def test_excerpt_includes_constants_and_options() -> None:
    content = write_excerpt(chain(), Excerpt([1, 2], [2], [4]))
    interpreter = litert.Interpreter(model_content=content)
    interpreter.allocate_tensors()
    assert [detail["name"] for detail in interpreter.get_input_details()] == ["t"]
    values = np.array([[-1, 0, 1, 2], [3, -4, 5, -6]], np.float32)
    interpreter.set_tensor(2, values)
    interpreter.invoke()
    weights = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(
        interpreter.get_tensor(4), np.maximum(values * weights + weights, 0)
    )


def test_excerpt_can_be_read_again() -> None:
    graph = read_file(write_excerpt(chain(), Excerpt([1, 2], [2], [4])), "it").subgraphs[0]
    assert [operator.op for operator in graph.operators] == ["MUL", "ADD"]
    assert (graph.inputs, graph.outputs) == ((2,), (4,))
    assert [tensor.name for tensor in graph.tensors] == ["x", "w", "t", "m", "y"]


def test_folded_values_are_written_as_constants() -> None:
    folded = np.full((2, 4), 2, np.float32)
    content = write_excerpt(chain(), Excerpt([1], [], [3], constants={2: folded}))
    interpreter = litert.Interpreter(model_content=content)
    interpreter.allocate_tensors()
    interpreter.invoke()
    expected = folded * np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(interpreter.get_tensor(3), expected)


def test_only_called_subgraphs_are_written() -> None:
    main = writer.Subgraph([writer.Tensor("x", (1,)), writer.Tensor("y", (1,))], [], ["x"], ["x"])
    other = writer.Subgraph([writer.Tensor("a", (1,))], [], ["a"], ["a"], "other")
    content = writer.write_model([main, other])
    alone = read_file(write_excerpt(content, Excerpt([], [0], [0])), "it")
    assert [len(graph.tensors) for graph in alone.subgraphs] == [2, 0]
    both = read_file(write_excerpt(content, Excerpt([], [0], [0], calls=True)), "it")
    assert [len(graph.tensors) for graph in both.subgraphs] == [2, 1]
