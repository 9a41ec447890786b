"""Dependencies of kernels: on kernels of the same node, of other nodes, and on states."""

from __future__ import annotations

from random_graphs import build

from fourfold.codegen.context import Packed, Scratch
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.location import Layout, Location
from fourfold.compiler.lower.allocation import find_dependencies
from fourfold.compiler.lower.kernels import Built
from fourfold.graph import Node
from fourfold.types import DType


def kernel(node: Node, **memories: object) -> Built:
    """Return a kernel that writes `to` and reads the other values."""
    made = Kernel("any", literal=False)
    for title, memory in memories.items():
        made.pointer(title, DType.F32, memory, writable=title == "to")
    return Built(made, node)


def place(root: str, offset: int = 0) -> Location:
    return Location(root, Layout.ROWS, DType.F32, 8, offset)


GRAPH = build("""
input x: f32[1,3,2,4]
input s: f32[1,3,2,4]
a = tanh(x)
b = relu(x)
c = concat(a, b; axis=3)
d = reshape(c; shape=(1,6,8))
e = exp(d)
f = tanh(s)
output e, f
""")
A, B, C, D, E, F = GRAPH.nodes


def test_kernel_depends_on_producers_of_inputs() -> None:
    """Neither the join nor the reshape has a kernel: both are views of other values."""
    built = [
        kernel(A, to=place("c"), of=place("x")),
        kernel(B, to=place("c", 4), of=place("x")),
        kernel(E, to=place("e"), of=place("c")),
    ]
    assert find_dependencies(GRAPH, built, {}) == [frozenset(), frozenset(), {0, 1}]


def test_kernels_of_a_node_depend_on_shared_memory() -> None:
    scratch = Scratch("e/sums", 64)
    built = [
        kernel(E, to=scratch, of=place("c")),
        kernel(E, to=place("e"), of=scratch),
        kernel(E, to=place("e"), of=place("c")),
    ]
    dependencies = find_dependencies(GRAPH, built, {})
    assert dependencies == [frozenset(), {0}, {1}]


def test_parts_of_a_joined_value_are_copied_side_by_side() -> None:
    weights = Packed(
        build("const w: f32[3]\ninput x: f32[3]\ny = add(x, w)\noutput y").constants["w"]
    )
    built = [
        kernel(A, to=place("a"), of=place("x")),
        kernel(C, to=place("c"), of=place("a"), by=weights),
        kernel(C, to=place("c", 4), of=place("b"), by=weights),
        kernel(E, to=place("e"), of=place("c")),
    ]
    assert find_dependencies(GRAPH, built, {}) == [frozenset(), {0}, {0}, {1, 2}]


def test_next_state_waits_for_readers() -> None:
    built = [
        kernel(F, to=place("f"), of=place("s")),
        kernel(A, to=place("a"), of=place("x")),
    ]
    assert find_dependencies(GRAPH, built, {"s": 3, "x": 2, "f": 4}) == [frozenset(), frozenset()]
    assert find_dependencies(GRAPH, built, {"s": 3, "a": 3}) == [frozenset(), {0}]
