"""The cost of an op follows from its attributes and from the types of its values."""

from __future__ import annotations

import pytest

from fourfold.compiler.partition import cost
from fourfold.graph import NONE, Graph, Node
from fourfold.ops.base import registry
from fourfold.ops.base.window import Pool2d
from fourfold.types import TensorType

POOLS = [name for name, op in registry().items() if op.attributes is Pool2d]


def work(op: str, attributes: object, *types: str) -> float:
    """Return the arithmetic of one node; the last type is that of its result."""
    names = tuple(f"v{number}" for number in range(len(types)))
    node = Node(op, names[:-1], names[-1:], attributes)
    parsed = dict(zip(names, map(TensorType.parse, types), strict=True))
    return cost.flops(Graph((node,), names[:-1], names[-1:], parsed), node)


def test_both_pools_are_known() -> None:
    assert {"average_pool2d", "max_pool2d"} <= set(POOLS)


@pytest.mark.parametrize("op", POOLS)
@pytest.mark.parametrize("filter", [(1, 1), (2, 3), (7, 7)])
def test_cost_of_a_pool_depends_on_its_filter(op: str, filter: tuple[int, int]) -> None:
    attributes = Pool2d(filter, (1, 1))
    result = work(op, attributes, "f32[1,16,16,8]", "f32[1,9,9,8]")
    assert result == 9 * 9 * 8 * filter[0] * filter[1]


def test_a_product_costs_two_for_each_weight_and_row() -> None:
    assert work("fully_connected", NONE, "f32[3,8]", "f32[5,8]", "f32[3,5]") == 2 * 3 * 5 * 8


@pytest.mark.parametrize("names", [cost._WEIGHTED, cost._VIEWS])
def test_the_ops_that_are_named_exist(names: set[str]) -> None:
    assert names <= set(registry())
