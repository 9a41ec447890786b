"""Models in `mixed` with all values in fp16 return finite numbers where LiteRT does, for many kinds
of input.

`mixed` requires that values between kernels fit fp16. Inputs ten times as large as usual may take a
model's values beyond that range, where fp16 has infinities.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import runtimes
from model_collection import TFLITE, needs_models, or_skipped

import fourfold
from fourfold import TensorInfo
from fourfold.codegen import context
from fourfold.compiler.lower import specialise, storage
from fourfold.compiler.lower.half_range import values_beyond_half
from fourfold.formats import read_model
from fourfold.runtime.random_inputs import random_inputs
from fourfold.types import MAX_FLOAT16

QUICK = ("trained_lstm", "kws_ref_model_float32", "rnet")
ALL = sorted(path.stem for path in TFLITE.glob("*.tflite"))
UNKNOWN = {"selfie_segmentation"}  # has an op that LiteRT alone does not support
LARGE_FACTOR = 10.0
LITERT = "ai_edge_litert"
pytestmark = [
    needs_models,
    pytest.mark.skipif(LITERT not in runtimes.INSTALLED, reason="LiteRT is not installed"),
]
Arrays = dict[str, np.ndarray]


@pytest.fixture(autouse=True)
def _no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store even the smallest values in fp16, as on GPUs with matrix units."""
    monkeypatch.setattr(storage, "MAX_FP32_ELEMENTS", 0)
    monkeypatch.setattr(context, "MAX_FP32_WEIGHTS", 0)
    monkeypatch.setattr(specialise, "MAX_FP32_ARENA_BYTES", 0)


def filled(ports: Sequence[TensorInfo], number: float) -> Arrays:
    return {port.name: np.full(port.shape, number).astype(port.dtype) for port in ports}


def input_kinds(ports: Sequence[TensorInfo]) -> Iterator[tuple[str, Arrays]]:
    usual = random_inputs(ports, seed=1)
    masks = [port for port in ports if np.dtype(port.dtype).kind == "b"]
    floats = [port.name for port in ports if np.dtype(port.dtype).kind == "f"]
    yield "random", usual
    yield "zeros", filled(ports, 0)
    yield "ones", filled(ports, 1)
    if masks:
        yield "all true", {**usual, **filled(masks, 1)}
        yield "all false", {**usual, **filled(masks, 0)}
    if floats:
        yield (
            "large",
            {**usual, **{name: usual[name] * np.float32(LARGE_FACTOR) for name in floats}},
        )


def interpreter(path: Path) -> Any:
    """Return a LiteRT interpreter that keeps every intermediate value."""
    module = runtimes.runtime(LITERT)
    return module.Interpreter(
        str(path),
        experimental_op_resolver_type=module.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        experimental_preserve_all_tensors=True,
    )


def exceeds_fp16(engine: Any, path: Path) -> bool:
    """Return True if LiteRT's last run had values beyond fp16, other than mask constants."""
    masks = values_beyond_half(read_model(str(path)).main)
    for detail in engine.get_tensor_details():
        if detail["dtype"] is np.float32 and detail["name"] not in masks:
            array = engine.get_tensor(detail["index"])
            if np.abs(array[np.isfinite(array)]).max(initial=0.0) > MAX_FLOAT16:
                return True
    return False


def check_model(name: str) -> None:
    path = TFLITE / f"{name}.tflite"
    lost = []
    with fourfold.Session(path, precision="mixed", follow_batch=False) as session:
        for kind, arrays in input_kinds(session.inputs):
            session.reset()
            engine = interpreter(path)  # resets variables
            theirs = runtimes.run(engine, list(arrays.values()))
            for ours, expected in zip(session.run(arrays).values(), theirs, strict=True):
                finite = np.isfinite(expected.astype(np.float64))
                if not np.isfinite(ours.astype(np.float64))[finite].all():
                    excused = kind == "large" and exceeds_fp16(engine, path)
                    lost += [] if excused else [kind]
    assert not lost


@pytest.mark.parametrize("name", QUICK)
def test_small_models_are_finite_where_litert_is(name: str) -> None:
    check_model(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", or_skipped(name for name in ALL if name not in {*QUICK, *UNKNOWN}))
def test_all_models_are_finite_where_litert_is(name: str) -> None:
    check_model(name)
