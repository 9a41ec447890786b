"""check: every rule names its violations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from random_graphs import build

from fourfold.compiler.rewrite import check, rewrite
from fourfold.graph import Graph, Node, Step
from fourfold.ops.reshape import Reshape
from fourfold.types import Quantization, TensorType

GOOD = build("""
    input x: f32[2,3]
    const c: f32[3]
    a = add(x, c)
    y = softmax(a) |> mul(x)
    output y
""")
FIRST, LAST = GOOD.nodes


def typed(graph: Graph, name: str, text: str) -> Graph:
    return replace(graph, types={**graph.types, name: TensorType.parse(text)})


def nodes(*result: Node) -> Graph:
    return replace(GOOD, nodes=result)


WRONG = {
    "every op is known": nodes(FIRST, replace(LAST, op="warp")),
    "every op has its own attributes": nodes(FIRST, replace(LAST, attributes=Reshape((6,)))),
    "every value has one writer": nodes(FIRST, FIRST, LAST),
    "every value is written before it is read": nodes(LAST, FIRST),
    "every output exists": replace(GOOD, outputs=("y", "z")),
    "every value has a type": replace(GOOD, types={"x": GOOD.types["x"]}),
    "every constant has its type": replace(GOOD, constants={"c": np.zeros(3)}),
    "every tail is pointwise": nodes(
        FIRST, replace(LAST, tail=(Step("softmax", LAST.attributes, (None,)),))
    ),
    "every type is what its op infers": typed(GOOD, "y", "f32[3,2]"),
}
TAILS = {
    "does not use the running result": replace(
        LAST, tail=(Step("mul", LAST.tail[0].attributes, ("x", "x")),)
    ),
    "a tail needs a single result": replace(LAST, outputs=("y", "z")),
}


def test_a_good_graph_passes() -> None:
    check(GOOD)


@pytest.mark.parametrize("rule", WRONG)
def test_each_rule_reports_violations(rule: str) -> None:
    with pytest.raises(AssertionError, match=rule):
        check(WRONG[rule])


@pytest.mark.parametrize("message", TAILS)
def test_rules_of_tails(message: str) -> None:
    graph = typed(nodes(FIRST, TAILS[message]), "z", "f32[2,3]")
    with pytest.raises(AssertionError, match=message):
        check(graph)


def test_a_tail_keeps_the_shape() -> None:
    graph = build("""
        input x: f32[1,3]
        input z: f32[2,3]
        y = softmax(x) |> mul(z)
        output y
    """)
    with pytest.raises(AssertionError, match=r"mul changes f32\[1,3\] to f32\[2,3\].*softmax"):
        check(graph)


def test_an_input_that_is_a_constant_is_found() -> None:
    with pytest.raises(AssertionError, match="input 'x' is also a constant"):
        check(replace(GOOD, constants={**GOOD.constants, "x": np.zeros((2, 3), np.float32)}))


def test_reports_errors_of_type_rules() -> None:
    graph = typed(GOOD, "c", "f32[4]")
    graph = replace(graph, constants={"c": np.zeros(4, np.float32)})
    with pytest.raises(AssertionError, match="do not broadcast"):
        check(graph)


def test_rewriting_keeps_the_quantization_of_remaining_values() -> None:
    graph = replace(GOOD, quantization={"y": Quantization((0.5,), (3,))})
    after = rewrite(graph, verify=True)
    assert str(after) == str(graph)
    assert after.quantization == graph.quantization
