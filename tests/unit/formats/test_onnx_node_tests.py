"""Official ONNX operator tests: converted operators return the expected values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fourfold.backends.cpu.reference import evaluate
from fourfold.errors import FourfoldError, InputError, UnsupportedError
from fourfold.formats import ReadOptions, read_model
from fourfold.types import DType

node_cases = pytest.importorskip("onnx.backend.test.case.node", reason="onnx is not installed")

MIN_CORRECT_TESTS = 690
STRING = 8
SUPPORTED_DTYPES = {dtype.numpy for dtype in DType if dtype.has_numpy}


def is_plain(case: Any) -> bool:
    """Return True if all inputs and outputs are arrays of a supported type."""
    ports = [*case.model.graph.input, *case.model.graph.output]
    tensors = all(port.type.HasField("tensor_type") for port in ports)
    texts = any(port.type.tensor_type.elem_type == STRING for port in ports)
    arrays = [array for side in case.data_sets[0] for array in side]
    return (
        tensors
        and not texts
        and all(np.asarray(array).dtype in SUPPORTED_DTYPES for array in arrays)
    )


def close(found: np.ndarray, expected: np.ndarray) -> bool:
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        return False
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    tolerance = 1e-3 if expected.dtype == np.float16 else 1e-5
    pair = found.astype(wide), expected.astype(wide)
    return np.allclose(*pair, rtol=1e-3, atol=tolerance, equal_nan=True)


def outcome(case: Any) -> str:
    inputs, expected = ([np.asarray(array) for array in side] for side in case.data_sets[0])
    names = [port.name for port in case.model.graph.input]
    shapes = {name: array.shape for name, array in zip(names, inputs, strict=True)}
    try:
        options = ReadOptions(shapes, follow_batch=False)
        main = read_model(case.model.SerializeToString(), options).main
    except (UnsupportedError, InputError):
        return "refused"
    except FourfoldError as error:
        return f"wrong: {error.what}: {error.why}"
    result = evaluate(main, dict(zip(names, inputs, strict=True)))
    right = all(map(close, result.values(), expected))
    return "right" if right else "wrong: the numbers differ"


@pytest.mark.filterwarnings("ignore")  # the tests reach the limits of types
def test_converted_operators_return_expected_values() -> None:
    cases = node_cases.collect_testcases(None)
    outcomes = {case.name: outcome(case) for case in cases if is_plain(case)}
    failures = {name: result for name, result in outcomes.items() if result.startswith("wrong")}
    assert failures == {}
    assert list(outcomes.values()).count("right") >= MIN_CORRECT_TESTS
