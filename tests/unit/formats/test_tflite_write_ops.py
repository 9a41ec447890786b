"""Cases of every op, written as TFLite files: LiteRT and our reader return the same results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from op_inputs import case_graph
from runtimes import INSTALLED, interpreter, run

from fourfold.backends.cpu.reference import evaluate
from fourfold.errors import UnsupportedError
from fourfold.formats import formats, read_model
from fourfold.formats.tflite.write_graph.expand import expansions
from fourfold.formats.tflite.write_graph.operators import rules
from fourfold.formats.writable import WritableModel
from fourfold.graph import Graph
from fourfold.ops.base import Case, Op, registry
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.ops.quantize import Quantize

TOLERANCE = 2e-5  # relative to the largest result
# Ops that TFLite has no operators for. Frame ops are inserted by a session and are no part of a
# model.
UNSUPPORTED = {
    *("bit_shift", "bitwise_and", "bitwise_or", "blend_rows", "box_corners", "decode_boxes"),
    *("frame", "gather_rows", "grid_sample", "max_unpool2d", "non_max_suppression"),
    *("roi_align", "suppress_boxes"),
}
PARTLY_SUPPORTED = {
    "quantize": "cannot quantize to i32",
    "rfft2d": "powers of two",
    "scatter_elements": "no operator",
    "scatter_update": "no operator",
}
WRITE_ONLY = {"bitwise_xor"}  # our reader may not support them


def written(graph: Graph) -> bytes:
    return formats()["tflite"].write(WritableModel(graph, graph.arguments, graph.results))


def arrays_of(graph: Graph, case: Case, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    live = [a for index, a in enumerate(arrays) if index not in case.constants and a is not None]
    assert len(live) == len(graph.arguments)
    return live


def limit_of(case: Case, wanted: np.ndarray) -> float:
    match case.attributes:
        case Quantize():
            return 1.0  # ties may round either way
        case FakeQuantize() as grid:
            return grid.distance * 1.001
    return TOLERANCE * case.tolerance * max(1.0, float(np.abs(wanted).max(initial=0)))


def check(case: Case, found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> None:
    for ours, right in zip(found, wanted, strict=True):
        assert ours.dtype == right.dtype, case
        assert ours.shape == right.shape, case
        both = ours.astype(np.complex128), right.astype(np.complex128)
        assert np.abs(both[0] - both[1]).max(initial=0) <= limit_of(case, right), case


def runs_alike(op: Op, case: Case) -> bool:
    """Return True if LiteRT is installed and agrees: its minimum norm is 1e-6, ours 1e-3."""
    small_norms = op.name == "l2_normalize" and case.high < 1e-3
    return "ai_edge_litert" in INSTALLED and not small_norms


@pytest.mark.parametrize("op", registry().values(), ids=list(registry()))
def test_written_op_returns_the_same_results(op: Op) -> None:
    for case in op.cases:
        graph, (arrays,) = case_graph(op, (case,))
        try:
            content = written(graph)
        except UnsupportedError as error:
            reason = str(error)
            assert op.name in UNSUPPORTED or PARTLY_SUPPORTED[op.name] in reason, case
            continue
        assert op.name not in UNSUPPORTED, case
        live = arrays_of(graph, case, arrays)
        values = evaluate(graph, dict(zip(graph.arguments, live, strict=True)))
        expected = [values[name] for name in graph.results]
        if runs_alike(op, case):
            check(case, run(interpreter("ai_edge_litert", content), live), expected)
        check_own_reader(op, case, content, live, expected)


def check_own_reader(
    op: Op, case: Case, content: bytes, live: list[np.ndarray], wanted: list[np.ndarray]
) -> None:
    """Check the written file with our own reader."""
    try:
        model = read_model(content)
    except UnsupportedError:
        assert op.name in WRITE_ONLY, case
        return
    again = evaluate(model.main, dict(zip(model.main.arguments, live, strict=True)))
    check(case, [again[name] for name in model.main.results], wanted)


def test_writer_rules_name_existing_ops() -> None:
    ops = set(registry())
    assert set(rules()) <= ops
    assert set(expansions()) - {"tail"} <= ops
    assert not UNSUPPORTED & (set(rules()) | set(expansions()))
