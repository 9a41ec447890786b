"""Units become as few parts as possible that can run one after the other."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fourfold.backends.cpu.reference import NumpyPart
from fourfold.compiler.partition import bind_units, find_units, make_partitions
from fourfold.graph import Graph, Node
from fourfold.plan.targets import GPU, NUMPY
from fourfold.types import TensorType

TYPE = TensorType.parse("f32[2,3]")


def graph_of(*edges: tuple[str, tuple[str, ...]], outputs: tuple[str, ...]) -> Graph:
    """Build nodes from the value they write and those they read; other values are inputs."""
    written = {name for name, _ in edges}
    read = dict.fromkeys(name for _, names in edges for name in names if name not in written)
    nodes = tuple(
        Node("add" if len(names) > 1 else "relu", names, (name,), name=name)
        for name, names in edges
    )
    types = dict.fromkeys([*read, *written], TYPE)
    return Graph(nodes, tuple(read), outputs, types)


DIAMOND = graph_of(("a", ("x",)), ("b", ("a",)), ("c", ("a",)), ("d", ("b", "c")), outputs=("d",))


def shape(graph: Graph, places: dict[str, str]) -> list[tuple[str, tuple[str, ...]]]:
    parts = make_partitions(graph, find_units(graph, None), places)
    return [(part.target, part.names) for part in parts]


def test_one_target_is_one_part() -> None:
    places = dict.fromkeys("abcd", GPU)
    (part,) = make_partitions(DIAMOND, find_units(DIAMOND, None), places)
    assert part.inputs == ("x",)
    assert part.outputs == ("d",)
    assert part.graph(DIAMOND).nodes == DIAMOND.nodes


def test_branch_on_another_target_splits_the_others() -> None:
    places = {"a": GPU, "b": NUMPY, "c": GPU, "d": GPU}
    assert shape(DIAMOND, places) == [(GPU, ("a", "c")), (NUMPY, ("b",)), (GPU, ("d",))]
    first, second, third = make_partitions(DIAMOND, find_units(DIAMOND, None), places)
    assert set(first.outputs) == {"a", "c"}
    assert (second.inputs, second.outputs) == (("a",), ("b",))
    assert set(third.inputs) == {"b", "c"}


def test_branches_on_one_target_share_a_part() -> None:
    graph = graph_of(("a", ("x",)), ("b", ("a",)), ("c", ("y",)), ("d", ("b", "c")), outputs=("d",))
    places = {"a": GPU, "b": NUMPY, "c": GPU, "d": NUMPY}
    assert [place for place, _ in shape(graph, places)] == [GPU, NUMPY]


def test_units_that_share_a_state_stay_together() -> None:
    units = find_units(DIAMOND, None)
    (group,) = bind_units(units, {"a": ("s",), "d": ("s",)})
    assert group == set("abcd")
    assert bind_units(units, {"a": ("s",)}) == ()


def test_bound_units_wait_for_all_dependencies() -> None:
    graph = graph_of(("r", ("x",)), ("g", ("y",)), ("w", ("r", "g")), outputs=("w",))
    units = find_units(graph, None)
    bound = bind_units(units, {"r": ("s",), "w": ("s",)})
    parts = make_partitions(graph, units, {"r": NUMPY, "g": GPU, "w": NUMPY}, bound)
    assert [(part.target, part.names) for part in parts] == [(GPU, ("g",)), (NUMPY, ("r", "w"))]


@given(st.integers(2, 14), st.data())
def test_parts_are_in_an_order_and_lose_nothing(count: int, data: st.DataObject) -> None:
    names = [f"n{number}" for number in range(count)]
    edges = []
    for number, name in enumerate(names):
        sources = ["x", *names[:number]]
        read = data.draw(st.lists(st.sampled_from(sources), min_size=1, max_size=2, unique=True))
        edges.append((name, tuple(read)))
    graph = graph_of(*edges, outputs=(names[-1],))
    places = {name: data.draw(st.sampled_from([GPU, NUMPY])) for name in names}
    parts = make_partitions(graph, find_units(graph, None), places)
    known = {"x"}
    for part in parts:
        assert known >= set(part.inputs)
        known.update(value for unit in part.units for value in unit.writes)
    kept = [name for part in parts for name in part.names]
    assert len(kept) == len(set(kept))
    assert names[-1] in kept


def test_a_part_can_be_evaluated() -> None:
    places = {"a": GPU, "b": NUMPY, "c": GPU, "d": GPU}
    values = {"x": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)}
    for part in make_partitions(DIAMOND, find_units(DIAMOND, None), places):
        engine = NumpyPart(part.graph(DIAMOND))
        result = engine.run([values[name] for name in part.inputs])
        values.update(zip(part.outputs, result, strict=True))
    np.testing.assert_array_equal(values["d"], 2 * np.maximum(values["x"], 0))
