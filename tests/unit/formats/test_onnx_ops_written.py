"""Every op that ONNX can say, written, and run by ONNX Runtime and by what our reader makes of the
file: both give the reference's answers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from op_inputs import case_graph

from fourfold.backends.cpu.reference import evaluate
from fourfold.errors import UnsupportedError
from fourfold.formats import formats, read_model
from fourfold.formats.onnx.write_graph import operators
from fourfold.formats.writable import WritableModel
from fourfold.graph import Graph
from fourfold.ops.base import Case, registry

runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

TOLERANCE = 2e-5
# Cases that ONNX cannot say, by op and number, and why.
REFUSED = {
    ("average_pool", 2): "ceil_mode",
    **{("bit_shift", number): "only shift unsigned integers" for number in (0, 1, 2, 3, 4, 6)},
    ("gather", 8): "axes between its batch",
    ("max_pool", 4): "cannot pool i32",
    ("resize", 12): "keeps its size",
}
# Cases that ONNX Runtime has no kernel for, or computes otherwise than ONNX's own reference.
NOT_IN_RUNTIME = {
    ("depth_to_space", 5),  # integers
    ("grid_sample", 7),  # a cubic curve beyond the border
    ("grid_sample", 10),  # one axis
    ("resize", 8),  # a cubic curve that shrinks: it moves the transpose behind it, and then refuses
    ("select", 8),  # bools
    ("space_to_depth", 5),  # integers
}
WRITTEN = sorted(operators())
# Ops that only passes of ours make, or that no operators of ONNX add up to.
OTHERS = sorted(name for name, op in registry().items() if name not in WRITTEN and op.cases)


def test_rules_are_about_ops() -> None:
    assert set(WRITTEN) <= set(registry())
    assert len(WRITTEN) >= 105


@pytest.mark.parametrize("name", OTHERS)
def test_other_ops_are_refused_by_name(name: str) -> None:
    op = registry()[name]
    graph, _ = case_graph(op, op.cases[:1])
    with pytest.raises(UnsupportedError, match="cannot be written as ONNX") as raised:
        formats()["onnx"].write(WritableModel(graph, graph.inputs, graph.outputs))
    assert [(refusal.op, refusal.node) for refusal in raised.value.refusals] == [(name, "out0_0")]


@pytest.mark.parametrize("name", WRITTEN)
def test_every_case_gives_the_same_answers(name: str) -> None:
    op, wrong = registry()[name], []
    for number, case in enumerate(op.cases):
        graph, (arrays,) = case_graph(op, (case,))
        model = WritableModel(graph, graph.inputs, graph.outputs)
        if (name, number) in REFUSED:
            with pytest.raises(UnsupportedError, match=REFUSED[name, number]):
                formats()["onnx"].write(model)
            continue
        content = formats()["onnx"].write(model)
        found = op.reference(case.attributes, *arrays)
        expected = found if isinstance(found, tuple) else (found,)
        read = dict(zip(graph.nodes[0].inputs, arrays, strict=True))
        inputs = [array for name in graph.inputs if (array := read[name]) is not None]
        wrong += _complaints(case, f"{number}, read", _own(content, inputs), expected)
        if (name, number) not in NOT_IN_RUNTIME:
            wrong += _complaints(case, f"{number}, run", _runtime(content, graph, inputs), expected)
    assert not wrong, "\n".join(wrong)


def _own(content: bytes, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    graph = read_model(content).main
    results = evaluate(graph, dict(zip(graph.arguments, inputs, strict=True)))
    return [results[name] for name in graph.results]


def _runtime(content: bytes, graph: Graph, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    found: list[np.ndarray] = session.run(
        list(graph.outputs), dict(zip(graph.inputs, inputs, strict=True))
    )
    return found


def _complaints(
    case: Case, where: str, results: Sequence[np.ndarray], expected: Sequence[np.ndarray]
) -> list[str]:
    wrong = []
    for result, wanted in zip(results, expected, strict=True):
        if (result.dtype, result.shape) != (wanted.dtype, wanted.shape):
            wrong.append(f"{where}: {result.dtype}{result.shape}, not {wanted.dtype}{wanted.shape}")
            continue
        # A number between two steps of a grid goes to either, as it is divided or multiplied.
        steps = 1 if wanted.dtype in (np.int16, np.uint16) else 0
        limit = TOLERANCE * case.tolerance * max(1.0, float(np.abs(wanted).max(initial=0)))
        limit = limit if wanted.dtype.kind == "f" else steps
        error = np.abs(result.astype(np.float64) - wanted.astype(np.float64)).max(initial=0)
        if not error <= limit:
            wrong.append(f"{where}: off by {error:.3g}, allowed {limit:.3g}")
    return wrong
