"""The graph under construction: folding within a budget, names, states, and what is taken back."""

from __future__ import annotations

import numpy as np
import pytest

from fourfold.formats.budget import FOLD_LIMIT, MAX_ELEMENTS, Budget, check_shape
from fourfold.formats.builder import GraphBuilder
from fourfold.formats.rule_table import TypeMismatch, Unconvertible
from fourfold.graph import NONE
from fourfold.ops.reshape import Reshape
from fourfold.types import TensorType

F32 = TensorType.parse("f32[2,3]")


def builder(budget: int = 1 << 20) -> GraphBuilder:
    made = GraphBuilder(Budget(budget))
    made.types["x"] = F32
    made.constant("c", np.full((2, 3), -2, np.float32))
    return made


def test_what_is_known_is_folded() -> None:
    made = builder()
    made.node("relu", ("c",), NONE, "r", "r")
    assert made.nodes == []
    assert made.constants["r"].tolist() == [[0, 0, 0], [0, 0, 0]]
    assert made.folded == {"r"}
    made.node("add", ("x", "r"), NONE, "y", "sum")
    assert [(node.op, node.name) for node in made.nodes] == [("add", "sum")]
    assert made.types["y"] == F32


def test_nothing_is_folded_beyond_the_budget() -> None:
    made = builder(budget=30)
    made.node("relu", ("c",), NONE, "first", "first")  # 24 bytes
    made.node("relu", ("c",), NONE, "second", "second")
    assert list(made.folded) == ["first"]
    assert [node.outputs for node in made.nodes] == [("second",)]


def test_one_result_may_not_take_all_of_a_large_budget() -> None:
    budget = Budget(1 << 40)
    large = TensorType.parse(f"u8[{FOLD_LIMIT + 1}]")
    assert not budget.take(large)
    assert budget.left == 1 << 40
    assert budget.take(large, stored=large.bytes)
    assert budget.left == (1 << 40) - large.bytes


@pytest.mark.parametrize("shape", [(2, -1), (MAX_ELEMENTS, 2), (1,) * 17])
def test_impossible_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"its shape|17 axes"):
        check_shape(shape)


def test_what_nothing_has_written_cannot_be_read() -> None:
    with pytest.raises(ValueError, match="it reads 'z', which no earlier operator has written"):
        builder().node("relu", ("z",), NONE, "y", "y")


def test_a_type_rule_says_no() -> None:
    with pytest.raises(TypeMismatch) as caught:
        builder().node("reshape", ("x",), Reshape((7,)), "y", "y")
    assert caught.value.why.startswith("reshape: ")
    assert caught.value.only_floats


def test_names_that_values_have_are_not_given_again() -> None:
    made = builder()
    assert [made.fresh("x"), made.fresh("x"), made.fresh("y"), made.fresh("y")] == [
        "x:1",
        "x:2",
        "y",
        "y:1",
    ]


def test_nodes_and_states_of_a_failed_attempt_are_taken_back() -> None:
    made = builder()

    def fail() -> None:
        with made.attempt():
            made.states["s"] = made.node("relu", ("x",), NONE, "r", "r")
            raise Unconvertible("no")

    with pytest.raises(Unconvertible):
        fail()
    assert made.nodes == []
    assert made.states == {}


def test_a_state_keeps_its_type_and_is_not_huge() -> None:
    made = builder()
    assert made.state("s", F32) == "s"
    with pytest.raises(Unconvertible, match=r"is f32\[2,3\], and f32\[3,2\] is needed"):
        made.state("s", TensorType.parse("f32[3,2]"))
    with pytest.raises(Unconvertible, match="too large"):
        made.state("t", TensorType.parse(f"u8[{FOLD_LIMIT + 1}]"))


def test_every_output_is_a_value_of_its_own() -> None:
    made = builder()
    made.types["x/out"] = F32  # a name of the file's own
    made.node("relu", ("x",), NONE, "y", "y")
    graph = made.finish(("x",), ("y", "x", "c", "y"), "main")
    assert graph.outputs == ("y", "x/out:1", "c/out", "y/out")
    assert str(graph).splitlines()[-1] == "output y, x/out:1, c/out, y/out"
