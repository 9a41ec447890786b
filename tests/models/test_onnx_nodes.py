"""Official ONNX node tests on the NumPy references: converted operators are correct and have
kernels.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fourfold.backends.cpu.reference import evaluate
from fourfold.backends.null import NULL_GPU
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.errors import FourfoldError, UnsupportedError
from fourfold.formats import ReadOptions, read_model

pytest.importorskip("onnx")
pytestmark = pytest.mark.slow
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
# Operators whose tests run entirely on a device, for all dtypes that devices support.
FULLY_SUPPORTED = (
    *("AffineGrid", "ArgMax", "ArgMin", "Attention", "AveragePool", "BitwiseAnd"),
    *("BitwiseNot", "BitwiseOr", "BitwiseXor", "CausalConvWithState", "CenterCropPad"),
    *("ConvInteger", "DFT", "DynamicQuantizeLinear", "Erf", "GRU", "GatherElements"),
    *("GatherND", "GridSample", "GroupNormalization", "Hardmax", "IsInf", "IsNaN", "LSTM"),
    *("LayerNormalization", "LinearAttention", "LpPool", "MatMulInteger", "MaxPool"),
    *("MaxUnpool", "Mod", "NegativeLogLikelihoodLoss", "OneHot", "Pad", "Pow", "QLinearConv"),
    *("QLinearMatMul", "RMSNormalization", "RNN", "ReduceMax", "ReduceMin", "ReduceProd"),
    *("ReduceSum", "Resize", "ReverseSequence", "RoiAlign", "RotaryEmbedding", "STFT"),
    *("Scatter", "ScatterElements", "ScatterND", "SoftmaxCrossEntropyLoss", "SwiGLU"),
    *("TensorScatter", "TopK", "Trilu"),
)
UNSUPPORTED_DTYPES = {"float64", "uint32", "uint64", "bfloat16"}  # not supported by devices


@cache
def cases_by_op() -> dict[str, list[Any]]:
    from node_tests import node_tests

    result = defaultdict(list)
    for test in node_tests():
        result[test.op].append(test)
    return result


def outcome(test: Any) -> str:
    """Return '' if a test runs entirely on a device and passes, else the problem."""
    from node_tests import is_close

    shapes = {name: array.shape for name, array in test.inputs.items() if array.size}
    try:
        graph = read_model(test.model, ReadOptions(shapes=shapes)).main
    except FourfoldError as error:
        return f"refused: {error.what}: {error.why}"
    with np.errstate(all="ignore"):
        results = evaluate(graph, test.inputs)
    if not is_close(test, [results[name] for name in graph.results]):
        return "wrong"
    try:
        make_plan(rewrite(graph), NULL_GPU, KernelOptions())
    except UnsupportedError as error:
        return f"has no kernel: {error.why}"
    return ""


def has_unsupported_dtype(test: Any) -> bool:
    return any(
        str(array.dtype) in UNSUPPORTED_DTYPES for array in (*test.inputs.values(), *test.outputs)
    )


@pytest.mark.parametrize("op", FULLY_SUPPORTED)
def test_operator_runs_entirely_on_a_device(op: str) -> None:
    tests = [test for test in cases_by_op()[op] if "expanded" not in test.name]
    results = {test.name: outcome(test) for test in tests if not has_unsupported_dtype(test)}
    assert results
    assert not any(results.values()), "\n".join(f"{k}: {v}" for k, v in results.items() if v)
