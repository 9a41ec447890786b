"""Locations: reshapes, joins and cuts share memory where that is correct, and only there."""

from __future__ import annotations

import pytest
from random_graphs import build

from fourfold.backends.null import NULL_GPU
from fourfold.codegen.context import KernelOptions, Packed
from fourfold.codegen.location import Layout
from fourfold.compiler.lower import make_plan
from fourfold.compiler.lower.chosen_kernels import choose_kernels
from fourfold.compiler.lower.locations import choose_locations
from fourfold.graph import Graph


def kernels(graph: Graph) -> list[str]:
    return [launch.title for launch in make_plan(graph, NULL_GPU, KernelOptions()).launches]


def test_ports_are_stored_in_rows() -> None:
    graph = build(
        """
        input x: f32[1,4,4,8]
        y = relu(x)
        z = exp(y)
        output z
        """
    )
    locations = choose_locations(graph, KernelOptions())
    assert locations["x"].layout is locations["z"].layout is Layout.ROWS
    assert locations["y"].layout is Layout.SLICED


def test_a_reshape_costs_nothing() -> None:
    graph = build(
        """
        input x: f32[1,2,2,8]
        y = relu(x)
        z = reshape(y; shape=(1,32))
        w = exp(z)
        output w
        """
    )
    assert kernels(graph) == ["relu", "exp"]


def test_a_join_of_whole_slices_costs_nothing() -> None:
    graph = build(
        """
        input x: f32[1,2,2,8]
        a = relu(x)
        b = exp(x)
        c = concat(a, b; axis=3)
        d = relu(c)
        output d
        """
    )
    assert kernels(graph) == ["relu", "exp", "relu"]
    locations = choose_locations(graph, KernelOptions())
    assert locations["a"].root == locations["b"].root == "c"
    assert locations["b"].offset == 8 * 4


def test_join_copies_inputs_that_cannot_be_views() -> None:
    graph = build(
        """
        input x: f32[1,2,2,8]
        c = concat(x, x; axis=3)
        d = relu(c)
        output d
        """
    )
    assert kernels(graph) == ["concat_copy", "concat_copy", "relu"]


@pytest.mark.parametrize("axis", [1, 3])
def test_a_cut_costs_nothing(axis: int) -> None:
    begin = [0, 0, 0, 0]
    size = [1, 4, 4, 8]
    begin[axis], size[axis] = (4 if axis == 3 else 1), (4 if axis == 3 else 2)
    graph = build(
        f"""
        input x: f32[1,4,4,8]
        a = relu(x)
        b = slice(a; begin={tuple(begin)}, size={tuple(size)}, strides=(1,1,1,1))
        c = exp(b)
        output c
        """
    )
    assert kernels(graph) == ["relu", "exp"]


def test_two_outputs_never_share_memory() -> None:
    graph = build(
        """
        input x: f32[1,8]
        a = relu(x)
        b = reshape(a; shape=(8,1))
        output a, b
        """
    )
    locations = choose_locations(graph, KernelOptions())
    assert locations["a"].root != locations["b"].root
    assert kernels(graph) == ["relu", "reshape"]


def test_mixed_precision_keeps_ports_as_they_are() -> None:
    graph = build(
        """
        input x: f32[1,4,4,8]
        y = relu(x)
        z = exp(y)
        output z
        """
    )
    locations = choose_locations(graph, KernelOptions("mixed"))
    assert [locations[name].dtype.value for name in "xyz"] == ["f32", "f16", "f32"]


def test_thousands_of_nested_views_are_located() -> None:
    """Each concat contains the one before it; more of them than Python allows nested calls."""
    lines, last = ["input x: f32[1,4]"], "x"
    for number in range(1500):
        lines.append(f"c{number} = concat({last}, x; axis=0)")
        last = f"c{number}"
    locations = choose_locations(build("\n".join([*lines, f"output {last}"])), KernelOptions())
    assert {locations[f"c{number}"].root for number in range(1500)} == {last}


def test_large_equal_constants_of_kernels_share_memory() -> None:
    graph = build(
        """
        input x: f32[1,4,4,64]
        const w: f32[64,1,1,64]
        a = conv2d(x, w)
        b = softmax(a)
        y = conv2d(b, w)
        output y
        """
    )
    device, options = NULL_GPU, KernelOptions()
    built = choose_kernels(graph, device, options, {}).built
    buffers = [argument.memory for item in built for argument in item.kernel.buffers]
    packed = [one.array for one in buffers if isinstance(one, Packed) and one.array.size >= 4096]
    assert len(packed) == 2
    assert packed[0] is packed[1]
