"""ONNX's own tests of its operators: what is converted gives what they expect."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fourfold.backends.cpu.reference import evaluate
from fourfold.errors import FourfoldError, InputError, UnsupportedError
from fourfold.formats import ReadOptions, read_model
from fourfold.types import DType

node_cases = pytest.importorskip("onnx.backend.test.case.node", reason="onnx is not installed")

LEAST = 690  # of its tests that are converted and right
STRING = 8
KNOWN = {dtype.numpy for dtype in DType if dtype.has_numpy}


def is_plain(case: Any) -> bool:
    """Whether all that goes in and out is an array of a known type."""
    ports = [*case.model.graph.input, *case.model.graph.output]
    tensors = all(port.type.HasField("tensor_type") for port in ports)
    texts = any(port.type.tensor_type.elem_type == STRING for port in ports)
    arrays = [array for side in case.data_sets[0] for array in side]
    return tensors and not texts and all(np.asarray(array).dtype in KNOWN for array in arrays)


def close(found: np.ndarray, wanted: np.ndarray) -> bool:
    if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
        return False
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    least = 1e-3 if wanted.dtype == np.float16 else 1e-5
    pair = found.astype(wide), wanted.astype(wide)
    return np.allclose(*pair, rtol=1e-3, atol=least, equal_nan=True)


def outcome(case: Any) -> str:
    given, wanted = ([np.asarray(array) for array in side] for side in case.data_sets[0])
    names = [port.name for port in case.model.graph.input]
    shapes = {name: array.shape for name, array in zip(names, given, strict=True)}
    try:
        options = ReadOptions(shapes, follow_batch=False)
        main = read_model(case.model.SerializeToString(), options).main
    except (UnsupportedError, InputError):
        return "refused"
    except FourfoldError as error:
        return f"wrong: {error.what}: {error.why}"
    found = evaluate(main, dict(zip(names, given, strict=True)))
    right = all(map(close, found.values(), wanted))
    return "right" if right else "wrong: the numbers differ"


@pytest.mark.filterwarnings("ignore")  # of the tests themselves: they go to the limits of types
def test_what_is_converted_is_right() -> None:
    cases = node_cases.collect_testcases(None)
    outcomes = {case.name: outcome(case) for case in cases if is_plain(case)}
    wrong = {name: found for name, found in outcomes.items() if found.startswith("wrong")}
    assert wrong == {}
    assert list(outcomes.values()).count("right") >= LEAST
