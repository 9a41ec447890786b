"""drop_unused: what nobody reads is not computed."""

from __future__ import annotations

from random_graphs import assert_rewrites

from fourfold.rewrite.drop_unused import drop_unused


def test_what_nobody_reads_goes_with_all_that_it_alone_reads() -> None:
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
