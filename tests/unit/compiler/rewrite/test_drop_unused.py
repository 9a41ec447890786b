"""drop_unused: unread values are not computed."""

from __future__ import annotations

from random_graphs import assert_rewrites

from fourfold.compiler.rewrite.drop_unused import drop_unused


def test_removes_unread_nodes_and_their_inputs() -> None:
    before = """
        input x: f32[3]
        input unread: f32[3]
        const c: f32[3]
        y = relu(x)
        a = add(x, c)
        b = negate(a)
        output y
    """
    graph = assert_rewrites(drop_unused, before, "y = relu(x)")
    assert graph.inputs == ("x", "unread")
    assert set(graph.types) == {"x", "unread", "y"}
    assert not graph.constants
