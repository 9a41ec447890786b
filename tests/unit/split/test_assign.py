"""What does not pay on the GPU is taken back, and the reason is said."""

from __future__ import annotations

import pytest

from fourfold.graph import Graph, Node
from fourfold.options import PlacementOptions
from fourfold.players.null import NULL_GPU
from fourfold.split import (
    AssignmentProblem,
    Costs,
    UnitSupport,
    assign_units,
    describe_placement,
    find_units,
)
from fourfold.targets import GPU, NUMPY
from fourfold.types import TensorType

NAMES = ("a", "b", "c", "d", "e")


def problem(reasons: dict[str, str], seconds: dict[str, dict[str, float]]) -> AssignmentProblem:
    """A chain of five units; `reasons` says which cannot be on the GPU."""
    nodes = tuple(
        Node("relu", (source,), (name,), name=name)
        for source, name in zip(("x", *NAMES), NAMES, strict=False)
    )
    type = TensorType.parse("f32[1,8]")
    graph = Graph(nodes, ("x",), ("e",), dict.fromkeys(("x", *NAMES), type))
    support = {
        name: UnitSupport(name, {GPU: reasons.get(name, ""), "engine": "no file", NUMPY: ""})
        for name in NAMES
    }
    measured = {(place, n): s for place, table in seconds.items() for n, s in table.items()}
    rates = Costs.of(graph, NULL_GPU, 2, "engine").rates
    units, costs = find_units(graph, None), Costs(graph, rates, measured)
    return AssignmentProblem(graph, units, support, costs)


FAST_GPU = {GPU: dict.fromkeys(NAMES, 1e-3), NUMPY: dict.fromkeys(NAMES, 1.0)}
SLOW_GPU = {GPU: dict.fromkeys(NAMES, 1e-3), NUMPY: dict.fromkeys(NAMES, 1e-6)}


def places(found: AssignmentProblem, options: PlacementOptions) -> str:
    assignment = assign_units(found, options)
    return "".join("g" if assignment.targets[name] == GPU else "c" for name in NAMES)


@pytest.mark.parametrize("placement", ["auto", "gpu"])
def test_what_pays_is_on_the_gpu(placement: str) -> None:
    assert places(problem({}, FAST_GPU), PlacementOptions(placement)) == "ggggg"
    assert places(problem({"c": "unknown"}, FAST_GPU), PlacementOptions(placement)) == "ggcgg"


def test_a_split_that_does_not_pay_is_not_made() -> None:
    found = problem({"c": "unknown"}, SLOW_GPU)
    assert places(found, PlacementOptions("auto")) == "ccccc"
    assert places(found, PlacementOptions("gpu")) == "ggcgg"
    assignment = assign_units(found, PlacementOptions("auto"))
    assert "would not pay" in assignment.reasons["a"]


def test_what_needs_no_split_stays_where_it_was_asked_for() -> None:
    assert places(problem({}, SLOW_GPU), PlacementOptions("auto")) == "ggggg"


def test_all_of_it_on_the_cpu() -> None:
    assert places(problem({}, FAST_GPU), PlacementOptions("cpu")) == "ccccc"


def test_only_so_many_parts_the_dearest_first() -> None:
    seconds = {
        GPU: dict.fromkeys(NAMES, 1e-3),
        NUMPY: dict(zip(NAMES, (1, 1, 1, 9, 9), strict=True)),
    }
    found = problem({"c": "unknown"}, seconds)
    most_one = PlacementOptions("auto", max_partitions=1)
    assert places(found, most_one) == "cccgg"
    assert assign_units(found, most_one).reasons["a"] == "max_partitions is 1"
    assert places(found, PlacementOptions("auto", max_partitions=0)) == "ccccc"


def test_a_placement_tells_itself() -> None:
    found = problem({"c": "this operator is not supported"}, FAST_GPU)
    placement = describe_placement(
        found, assign_units(found, PlacementOptions()), "some GPU", "auto", "LiteRT"
    )
    assert not placement.whole
    assert placement.on_gpu == 4
    assert placement.summary.startswith("4 of 5 operators run on some GPU (")
    assert "this operator is not supported" in str(placement)
    data = placement.to_json()
    assert [row["target"] for row in data["rows"]] == [GPU, GPU, NUMPY, GPU, GPU]
    assert data["operators"] == 5
    assert "<table>" in placement._repr_html_()
    (row,) = placement.fallbacks
    assert (row.name, row.reason, row.able) == ("c", "this operator is not supported", False)


def test_estimates_grow_with_the_work() -> None:
    small, large = (conv(size) for size in (8, 64))
    seconds = [
        Costs.of(graph, NULL_GPU, 2, "engine").unit(find_units(graph, None)[0], GPU)
        for graph in (small, large)
    ]
    assert seconds[0] < seconds[1]


def conv(channels: int) -> Graph:
    import numpy as np

    from fourfold.ops.conv2d import Conv2d

    weights = np.zeros((channels, 3, 3, channels), np.float32)
    shape = f"f32[1,{{}},{{}},{channels}]"
    types = {
        "x": TensorType.parse(shape.format(34, 34)),
        "y": TensorType.parse(shape.format(32, 32)),
        "w": TensorType.of(weights),
    }
    node = Node("conv2d", ("x", "w"), ("y",), Conv2d(), name="y")
    return Graph((node,), ("x",), ("y",), types, {"w": weights})
