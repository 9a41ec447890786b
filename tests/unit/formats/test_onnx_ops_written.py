"""Every op that ONNX can express is written to a file. ONNX Runtime and our reader return the
reference's results for it.
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
# Cases that ONNX cannot express, by op and number, with the reason.
REFUSED = {
    ("average_pool", 2): "ceil_mode",
    **{("bit_shift", number): "only shift unsigned integers" for number in (0, 1, 2, 3, 4, 6)},
    ("gather", 8): "axes between its batch",
    ("max_pool", 4): "cannot pool i32",
    ("resize", 12): "keeps its size",
}
# Cases that ONNX Runtime has no kernel for, or computes differently from ONNX's reference.
NOT_IN_RUNTIME = {
    ("depth_to_space", 5),  # integers
    ("grid_sample", 7),  # cubic interpolation beyond the border
    ("grid_sample", 10),  # one axis
    # cubic downscaling: ONNX Runtime moves the transpose behind it and then rejects it
    ("resize", 8),
    ("select", 8),  # bools
    ("space_to_depth", 5),  # integers
}
WRITTEN = sorted(operators())
# Ops that only our passes create, or that ONNX operators cannot express.
UNSUPPORTED = sorted(name for name, op in registry().items() if name not in WRITTEN and op.cases)


def test_writer_rules_name_existing_ops() -> None:
    assert set(WRITTEN) <= set(registry())
    assert len(WRITTEN) >= 105


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_rejects_unsupported_ops_by_name(name: str) -> None:
    op = registry()[name]
    graph, _ = case_graph(op, op.cases[:1])
    with pytest.raises(UnsupportedError, match="cannot be written as ONNX") as raised:
        formats()["onnx"].write(WritableModel(graph, graph.inputs, graph.outputs))
    assert [(refusal.op, refusal.node) for refusal in raised.value.refusals] == [(name, "out0_0")]


@pytest.mark.parametrize("name", WRITTEN)
def test_written_cases_return_the_same_results(name: str) -> None:
    op, differences = registry()[name], []
    for number, case in enumerate(op.cases):
        graph, (arrays,) = case_graph(op, (case,))
        model = WritableModel(graph, graph.inputs, graph.outputs)
        if (name, number) in REFUSED:
            with pytest.raises(UnsupportedError, match=REFUSED[name, number]):
                formats()["onnx"].write(model)
            continue
        content = formats()["onnx"].write(model)
        result = op.reference(case.attributes, *arrays)
        expected = result if isinstance(result, tuple) else (result,)
        read = dict(zip(graph.nodes[0].inputs, arrays, strict=True))
        inputs = [array for name in graph.inputs if (array := read[name]) is not None]
        differences += _differences(
            case, f"{number}, read", _run_own_reader(content, inputs), expected
        )
        if (name, number) not in NOT_IN_RUNTIME:
            differences += _differences(
                case, f"{number}, run", _run_onnx_runtime(content, graph, inputs), expected
            )
    assert not differences, "\n".join(differences)


def _run_own_reader(content: bytes, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    graph = read_model(content).main
    results = evaluate(graph, dict(zip(graph.arguments, inputs, strict=True)))
    return [results[name] for name in graph.results]


def _run_onnx_runtime(
    content: bytes, graph: Graph, inputs: Sequence[np.ndarray]
) -> list[np.ndarray]:
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    outputs: list[np.ndarray] = session.run(
        list(graph.outputs), dict(zip(graph.inputs, inputs, strict=True))
    )
    return outputs


def _differences(
    case: Case, where: str, results: Sequence[np.ndarray], expected: Sequence[np.ndarray]
) -> list[str]:
    differences = []
    for result, reference in zip(results, expected, strict=True):
        if (result.dtype, result.shape) != (reference.dtype, reference.shape):
            differences.append(
                f"{where}: {result.dtype}{result.shape}, not {reference.dtype}{reference.shape}"
            )
            continue
        # Values halfway between two quantization steps may round either way.
        steps = 1 if reference.dtype in (np.int16, np.uint16) else 0
        limit = TOLERANCE * case.tolerance * max(1.0, float(np.abs(reference).max(initial=0)))
        limit = limit if reference.dtype.kind == "f" else steps
        error = np.abs(result.astype(np.float64) - reference.astype(np.float64)).max(initial=0)
        if not error <= limit:
            differences.append(f"{where}: off by {error:.3g}, allowed {limit:.3g}")
    return differences
