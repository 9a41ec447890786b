"""Ops with integer kernels in LiteRT: all cases, with quantized values."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from op_inputs import case_graph
from runtimes import interpreter, run

from fourfold.backends.cpu.reference import evaluate
from fourfold.formats import formats
from fourfold.formats.tflite.write_graph.node_writer import Grids
from fourfold.formats.tflite.write_graph.operators import rules
from fourfold.formats.writable import StoredAs, WritableModel
from fourfold.graph import Graph
from fourfold.ops.base import Case, registry
from fourfold.types import DType, Quantization, dequantize, to_integers

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

OPS = [name for name, rule in rules().items() if rule.grids is not Grids.NONE]
MAX_STEPS_OFF = 2.5  # one step for rounding, one for the input
MAX_SHARE_OFF = 0.015  # of the int16 range: LiteRT interpolates pixels with ten bits
MAX_WRONG_COMPARISONS = 0.1  # share: different numbers may be on one quantization step
TYPES = [
    DType.I8,
    pytest.param(DType.U8, marks=pytest.mark.slow),
    pytest.param(DType.I16, marks=pytest.mark.slow),
]


def grid(array: np.ndarray, dtype: DType) -> StoredAs:
    low, high = min(array.min(initial=0), 0.0), max(array.max(initial=0), 0.0)
    if dtype is DType.I16:
        return StoredAs(dtype, Quantization((float(max(-low, high, 1e-3)) / 32767,), (0,)))
    scale = float(max(high - low, 1e-3)) / 255
    zero = int(np.iinfo(dtype.numpy).min - round(low / scale))
    return StoredAs(dtype, Quantization((scale,), (zero,)))


@dataclass(frozen=True)
class Stored:
    """A graph of one node, its storage types, and the real values of its integers."""

    graph: Graph
    forms: dict[str, StoredAs]
    integers: dict[str, np.ndarray]
    real: dict[str, np.ndarray]


def stored(op: str, case: Case, dtype: DType) -> Stored:
    graph, (arrays,) = case_graph(registry()[op], (case,))
    rule, (node,) = rules()[op], graph.nodes
    weights, bias = (
        node.inputs[place] if place is not None and place < len(node.inputs) else None
        for place in (rule.weights, rule.bias)
    )
    values = {name: array for name, array in zip(node.inputs, arrays, strict=True) if name}
    forms, integers, real = {}, {}, {}
    for name, array in values.items():
        if array is None or name is None:
            continue
        integers[name] = real[name] = array
        if array.dtype != np.float32 or name == bias:
            continue
        form = grid(array, dtype)
        if name == weights and name in graph.constants and dtype is not DType.U8:
            scale = float(max(np.abs(array).max(), 1e-3)) / 127
            form = StoredAs(DType.I8, Quantization((scale,), (0,)))
        assert form.quantization is not None
        forms[name] = form
        integers[name] = to_integers(array, form.quantization, form.dtype)
        real[name] = dequantize(integers[name], form.quantization)
    return Stored(graph, forms, integers, real)


def check(case: Case, stored_graph: Stored, content: bytes, wanted: dict[str, np.ndarray]) -> None:
    graph, forms = stored_graph.graph, stored_graph.forms
    result = run(
        interpreter("ai_edge_litert", content),
        [stored_graph.integers[name] for name in graph.arguments],
    )
    for name, array in zip(graph.results, result, strict=True):
        right = wanted[name]
        if name not in forms:
            assert (array != right).mean() <= MAX_WRONG_COMPARISONS, case
            continue
        form = forms[name]
        assert form.quantization is not None
        scales = [one.quantization.scale[0] for one in forms.values() if one.quantization]
        limit = MAX_STEPS_OFF * max(form.quantization.scale[0], *scales)
        if form.dtype is DType.I16:
            limit = MAX_SHARE_OFF * float(np.abs(right).max(initial=1e-3))
        apart = np.abs(dequantize(array, form.quantization) - right).max(initial=0)
        assert apart <= limit, case


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.value)
@pytest.mark.parametrize("op", OPS)
def test_integer_op_matches_litert(op: str, dtype: DType) -> None:
    for case in registry()[op].cases:
        real = any(text and text.startswith("f32") for text in case.inputs)
        # LiteRT's minimum norm is 1e-6, and ours 1e-3.
        if not real or (op == "l2_normalize" and case.high < 1e-3):
            continue
        stored_graph = stored(op, case, dtype)
        graph = stored_graph.graph
        constants = {name: stored_graph.real[name] for name in graph.constants}
        inputs = {name: stored_graph.real[name] for name in graph.arguments}
        expected = dict(evaluate(replace(graph, constants=constants), inputs))
        for name, array in expected.items():
            if array.dtype == np.float32:
                stored_graph.forms[name] = grid(array, dtype)
        model = WritableModel(graph, graph.arguments, graph.results, stored_graph.forms)
        check(case, stored_graph, formats()["tflite"].write(model), expected)
