"""The graph builder: constant folding within a budget, names, states, and rollback."""

from __future__ import annotations

import numpy as np
import pytest

from fourfold.formats.budget import FOLD_LIMIT, MAX_ELEMENTS, MAX_OPERATORS, Budget, check_shape
from fourfold.formats.builder import GraphBuilder
from fourfold.formats.rule_table import TypeMismatch, Unconvertible
from fourfold.graph import NONE
from fourfold.ops.reshape import Reshape
from fourfold.types import TensorType

F32 = TensorType.parse("f32[2,3]")


def make_builder(budget: int = 1 << 20) -> GraphBuilder:
    result = GraphBuilder(Budget(budget))
    result.types["x"] = F32
    result.constant("c", np.full((2, 3), -2, np.float32))
    return result


def test_folds_constant_inputs() -> None:
    result = make_builder()
    result.node("relu", ("c",), NONE, "r", "r")
    assert result.nodes == []
    assert result.constants["r"].tolist() == [[0, 0, 0], [0, 0, 0]]
    assert result.folded == {"r"}
    result.node("add", ("x", "r"), NONE, "y", "sum")
    assert [(node.op, node.name) for node in result.nodes] == [("add", "sum")]
    assert result.types["y"] == F32


def test_folding_stops_at_the_budget() -> None:
    result = make_builder(budget=30)
    result.node("relu", ("c",), NONE, "first", "first")  # 24 bytes
    result.node("relu", ("c",), NONE, "second", "second")
    assert list(result.folded) == ["first"]
    assert [node.outputs for node in result.nodes] == [("second",)]


def test_folding_stops_at_the_work_that_a_file_may_cause() -> None:
    """Each node reads and writes six numbers."""
    result = make_builder()
    result.budget.work = 30
    for number in range(5):
        result.node("relu", ("c",), NONE, f"r{number}", "r")
    assert result.folded == {"r0", "r1"}
    assert result.budget.work == 6
    assert [node.outputs[0] for node in result.nodes] == ["r2", "r3", "r4"]


def test_refuses_more_nodes_than_the_file_size_allows() -> None:
    result = make_builder()
    result.budget.nodes = 2
    for number in range(2):
        result.node("relu", ("x",), NONE, f"r{number}", "r")
    with pytest.raises(Unconvertible, match="too many nodes for its size"):
        result.node("relu", ("x",), NONE, "r2", "r")


def test_larger_files_may_have_more_nodes_up_to_a_limit() -> None:
    assert Budget.of(0).nodes < Budget.of(1 << 16).nodes < Budget.of(1 << 30).nodes
    assert Budget.of(1 << 30).nodes == MAX_OPERATORS


def test_large_results_are_not_folded() -> None:
    budget = Budget(1 << 40)
    large = TensorType.parse(f"u8[{FOLD_LIMIT + 1}]")
    assert not budget.take(large)
    assert budget.left == 1 << 40
    assert budget.take(large, stored=large.bytes)
    assert budget.left == (1 << 40) - large.bytes


@pytest.mark.parametrize("shape", [(2, -1), (MAX_ELEMENTS, 2), (1,) * 17])
def test_rejects_invalid_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"its shape|17 axes"):
        check_shape(shape)


def test_rejects_inputs_that_no_operator_writes() -> None:
    with pytest.raises(ValueError, match="it reads 'z', which no earlier operator has written"):
        make_builder().node("relu", ("z",), NONE, "y", "y")


def test_reports_type_mismatches() -> None:
    with pytest.raises(TypeMismatch) as caught:
        make_builder().node("reshape", ("x",), Reshape((7,)), "y", "y")
    assert caught.value.why.startswith("reshape: ")
    assert caught.value.only_floats


def test_fresh_names_are_unique() -> None:
    result = make_builder()
    assert [result.fresh("x"), result.fresh("x"), result.fresh("y"), result.fresh("y")] == [
        "x:1",
        "x:2",
        "y",
        "y:1",
    ]


def test_failed_attempt_is_rolled_back() -> None:
    result = make_builder()

    def fail() -> None:
        with result.attempt():
            result.states["s"] = result.node("relu", ("x",), NONE, "r", "r")
            raise Unconvertible("no")

    with pytest.raises(Unconvertible):
        fail()
    assert result.nodes == []
    assert result.states == {}


def test_states_have_one_type_and_a_limited_size() -> None:
    result = make_builder()
    assert result.state("s", F32) == "s"
    with pytest.raises(Unconvertible, match=r"is f32\[2,3\], and f32\[3,2\] is needed"):
        result.state("s", TensorType.parse("f32[3,2]"))
    with pytest.raises(Unconvertible, match="too large"):
        result.state("t", TensorType.parse(f"u8[{FOLD_LIMIT + 1}]"))


def test_outputs_have_unique_values() -> None:
    result = make_builder()
    result.types["x/out"] = F32  # a name from the file
    result.node("relu", ("x",), NONE, "y", "y")
    graph = result.finish(("x",), ("y", "x", "c", "y"), "main")
    assert graph.outputs == ("y", "x/out:1", "c/out", "y/out")
    assert str(graph).splitlines()[-1] == "output y, x/out:1, c/out, y/out"
