"""A model whose middle operator falls back to the CPU."""

from __future__ import annotations

from collections.abc import Sequence

from tflite_writer import Operator, Tensor, constant, write


def split_model(outputs: Sequence[str] = ("y",)) -> bytes:
    """Return y = diagonal(sum) * 2 with sum = x + 1, where diagonal has no GPU kernel."""
    tensors = [
        Tensor("x", (1, 5)),
        constant("one", [1.0], "float32"),
        Tensor("sum", (1, 5)),
        Tensor("matrix", (1, 5, 5)),
        constant("two", [2.0], "float32"),
        Tensor("y", (1, 5, 5)),
    ]
    operators = [
        Operator("ADD", ["x", "one"], ["sum"], "AddOptions"),
        Operator("MATRIX_DIAG", ["sum"], ["matrix"]),
        Operator("MUL", ["matrix", "two"], ["y"], "MulOptions"),
    ]
    return write(tensors, operators, ["x"], list(outputs))
