"""Units that do not pay off on the GPU move back to the CPU, with a reason."""

from __future__ import annotations

import pytest

from fourfold.backends.null import NULL_GPU
from fourfold.compiler.partition import (
    AssignmentProblem,
    Costs,
    UnitSupport,
    assign,
    assign_units,
    describe_placement,
    find_units,
)
from fourfold.graph import Graph, Node
from fourfold.options import PlacementOptions
from fourfold.plan.targets import GPU, NUMPY
from fourfold.types import TensorType

NAMES = ("a", "b", "c", "d", "e")


def problem(reasons: dict[str, str], seconds: dict[str, dict[str, float]]) -> AssignmentProblem:
    """Return a chain of five units; `reasons` says which cannot run on the GPU."""
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


def places(result: AssignmentProblem, options: PlacementOptions) -> str:
    assignment = assign_units(result, options)
    return "".join("g" if assignment.targets[name] == GPU else "c" for name in NAMES)


@pytest.mark.parametrize("placement", ["auto", "gpu"])
def test_units_that_pay_off_run_on_the_gpu(placement: str) -> None:
    assert places(problem({}, FAST_GPU), PlacementOptions(placement)) == "ggggg"
    assert places(problem({"c": "unknown"}, FAST_GPU), PlacementOptions(placement)) == "ggcgg"


def test_split_that_does_not_pay_off_is_not_made() -> None:
    result = problem({"c": "unknown"}, SLOW_GPU)
    assert places(result, PlacementOptions("auto")) == "ccccc"
    assert places(result, PlacementOptions("gpu")) == "ggcgg"
    assignment = assign_units(result, PlacementOptions("auto"))
    assert "would not pay" in assignment.reasons["a"]


def test_unsplit_model_stays_on_requested_target() -> None:
    assert places(problem({}, SLOW_GPU), PlacementOptions("auto")) == "ggggg"


def test_all_of_it_on_the_cpu() -> None:
    assert places(problem({}, FAST_GPU), PlacementOptions("cpu")) == "ccccc"


def test_max_partitions_keeps_the_most_expensive() -> None:
    seconds = {
        GPU: dict.fromkeys(NAMES, 1e-3),
        NUMPY: dict(zip(NAMES, (1, 1, 1, 9, 9), strict=True)),
    }
    result = problem({"c": "unknown"}, seconds)
    most_one = PlacementOptions("auto", max_partitions=1)
    assert places(result, most_one) == "cccgg"
    assert assign_units(result, most_one).reasons["a"] == "max_partitions is 1"
    assert places(result, PlacementOptions("auto", max_partitions=0)) == "ccccc"


def test_placement_describes_itself() -> None:
    result = problem({"c": "this operator is not supported"}, FAST_GPU)
    placement = describe_placement(
        result, assign_units(result, PlacementOptions()), "some GPU", "auto", "LiteRT"
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


def test_model_in_one_gpu_part_keeps_its_own_ports() -> None:
    """A unit that nothing reads may be refused by the GPU; the ports of the rest stay in order."""
    nodes = (
        Node("add", ("y", "x"), ("sum",), name="sum"),
        Node("relu", ("x",), ("unread",), name="unread"),
    )
    types = dict.fromkeys(("x", "y", "sum", "unread"), TensorType.parse("f32[1,8]"))
    graph = Graph(nodes, ("x", "y"), ("sum",), types)
    support = {
        "sum": UnitSupport("sum", {GPU: "", NUMPY: ""}),
        "unread": UnitSupport("unread", {GPU: "unknown", NUMPY: ""}),
    }
    costs = Costs.of(graph, NULL_GPU, 2, None)
    result = AssignmentProblem(graph, find_units(graph, None), support, costs)
    (partition,) = assign_units(result, PlacementOptions()).partitions
    assert (partition.target, partition.names) == (GPU, ("sum",))
    assert (partition.inputs, partition.outputs) == (("x", "y"), ("sum",))


def test_search_considers_the_partitions_with_most_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assign, "MAX_SEARCH_VISITS", 0)
    monkeypatch.setattr(assign, "MIN_SEARCHED", 2)
    seconds = {GPU: dict(zip(NAMES, (2e-3, 0, 1e-3, 0, 3e-3), strict=True))}
    seconds[NUMPY] = dict.fromkeys(NAMES, 1.0)
    result = problem({"b": "unknown", "d": "unknown"}, seconds)
    assert places(result, PlacementOptions("gpu")) == "gcccg"
    reasons = assign_units(result, PlacementOptions("gpu")).reasons
    assert reasons == {"c": "the device would run more than 2 separate parts"}
