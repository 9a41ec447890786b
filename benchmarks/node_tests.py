"""Provides ONNX's node tests as cases: a model, its inputs and its expected outputs.

Tests of sequences, optional values, strings and training are skipped. Inputs that configure an
operator (a shape, axes, a count) become constants, as in real models; the original tests pass them
at run time, where a compiler cannot know them.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

_FAMILIES = ("Sequence", "Optional", "String")
_LAST_DIGIT = {"bfloat16": 2.0**-6}  # relative tolerance; sums lose two bits
_STRINGS = onnx.TensorProto.STRING
_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
# Indices of the inputs that configure an operator.
SETTINGS: dict[str, tuple[int, ...]] = {
    **{f"Reduce{name}": (1,) for name in _REDUCTIONS},
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow", "ConstantOfShape"), (0,)),
    **dict.fromkeys(("CenterCropPad", "CumProd", "CumSum", "Expand", "OneHot", "Reshape"), (1,)),
    **dict.fromkeys(("AffineGrid", "Split", "Squeeze", "Tile", "TopK", "Trilu"), (1,)),
    **dict.fromkeys(("Unsqueeze", "Upsample"), (1,)),
    **dict.fromkeys(("Col2Im", "DFT", "Dropout"), (1, 2)),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), (4,)),
    **dict.fromkeys(("DequantizeLinear", "QuantizeLinear"), (1, 2)),
    **dict.fromkeys(("QLinearConv", "QLinearMatMul"), (1, 2, 4, 5, 6, 7)),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Resize": (1, 2, 3),
    "STFT": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
}


@dataclass(frozen=True, eq=False)
class NodeTest:
    """One test; `op` is the operator under test."""

    name: str
    op: str
    model: bytes
    inputs: dict[str, np.ndarray]
    outputs: tuple[np.ndarray, ...]
    rtol: float
    atol: float


def node_tests() -> Iterator[NodeTest]:
    """Yield all tests, also those of operators that are expanded into functions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = [test for test in load_model_tests(kind="node") if not _left_out(test)]
    settings = {test.name: _settings(test.model.graph) for test in tests}
    ops = {test.name: test.model.graph.node[0].op_type for test in tests}
    for test in tests:
        plain = re.sub(r"_expanded.*", "", test.name)
        constant = settings[test.name] | settings.get(plain, set())
        yield _case(test, ops.get(plain, "function"), constant)


def _left_out(test: Any) -> bool:
    return "training" in test.name or _is_left_out(test.model.graph)


def _is_left_out(graph: onnx.GraphProto) -> bool:
    types = [value.type for value in (*graph.input, *graph.output, *graph.value_info)]
    if any(_is_no_array(type) for type in types):
        return True
    for node in graph.node:
        other = (
            any(word in node.op_type for word in _FAMILIES) and node.op_type != "ReverseSequence"
        )
        learns = any(item.name == "training_mode" and item.i for item in node.attribute)
        inner = any(_is_left_out(item.g) for item in node.attribute if item.HasField("g"))
        if other or learns or inner or "training" in node.domain:
            return True
    return False


def _is_no_array(type: onnx.TypeProto) -> bool:
    kind = type.WhichOneof("value")
    return kind in ("sequence_type", "optional_type") or (
        kind == "tensor_type" and type.tensor_type.elem_type == _STRINGS
    )


def _settings(graph: onnx.GraphProto) -> set[str]:
    """Return the inputs of a graph that configure one of its operators."""
    taken = {value.name for value in graph.input}
    return {
        node.input[index]
        for node in graph.node
        for index in SETTINGS.get(node.op_type, ())
        if index < len(node.input) and node.input[index] in taken
    }


def _case(test: Any, op: str, constant: set[str]) -> NodeTest:
    model, (given, wanted) = onnx.ModelProto(), test.data_sets[0]
    model.CopyFrom(test.model)
    kept, inputs = [], {}
    for value, array in zip(test.model.graph.input, map(_array, given), strict=False):
        if value.name in constant:
            model.graph.initializer.append(numpy_helper.from_array(array, value.name))
        else:
            kept.append(value)
            inputs[value.name] = array
    del model.graph.input[:]
    model.graph.input.extend(kept)
    outputs = tuple(map(_array, wanted))
    return NodeTest(test.name, op, model.SerializeToString(), inputs, outputs, test.rtol, test.atol)


def _array(value: Any) -> np.ndarray:
    return (
        numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)
    )


def is_close(test: NodeTest, results: list[np.ndarray]) -> bool:
    """Return whether results match the test within its tolerances.

    The absolute tolerance is at least the rounding error of the largest value of an output, and
    low-precision types may differ in their last bits.
    """
    return len(results) >= len(test.outputs) and all(
        _is_close(found, wanted, test) for found, wanted in zip(results, test.outputs, strict=False)
    )


def _is_close(found: np.ndarray, wanted: np.ndarray, test: NodeTest) -> bool:
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    if wanted.dtype.kind in "biu" or "int" in wanted.dtype.name:
        return bool((found.astype(np.int64) == wanted.astype(np.int64)).all())
    ours, theirs = (array.astype(np.float64) for array in (found, wanted))
    sizes = np.abs(theirs[np.isfinite(theirs)])
    atol = max(test.atol, 2.0**-21 * float(sizes.max(initial=0)))
    rtol = max(test.rtol, _LAST_DIGIT.get(wanted.dtype.name, 0.0))
    return np.allclose(ours, theirs, rtol, atol, equal_nan=True)
