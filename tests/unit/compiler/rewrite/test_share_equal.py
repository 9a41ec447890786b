"""share_equal: equal nodes become one."""

from __future__ import annotations

from dataclasses import replace

from random_graphs import assert_rewrites, brief, build

from fourfold.compiler.rewrite.share_equal import share_equal
from fourfold.types import Quantization


def test_equal_nodes_become_one_and_so_do_their_readers() -> None:
    before = """
        input x: f32[3]
        a = relu(x)
        b = relu(x)
        c = negate(a)
        d = negate(b)
        y = add(c, d)
        output y
    """
    assert_rewrites(share_equal, before, "a = relu(x)", "c = negate(a)", "y = add(c, c)")


def test_small_constants_compare_by_content() -> None:
    before = """
        input x: f32[3]
        const p: f32[] = 2
        const q: f32[] = 2
        const r: f32[1] = 2
        a = mul(x, p)
        b = mul(x, q)
        c = mul(x, r)
        d = add(a, b)
        y = add(d, c)
        output y
    """
    after = ("a = mul(x, p)", "c = mul(x, r)", "d = add(a, a)", "y = add(d, c)")
    assert_rewrites(share_equal, before, *after)


def test_outputs_keep_their_names() -> None:
    before = """
        input x: f32[3]
        a = relu(x)
        y = relu(x)
        z = relu(x)
        w = negate(a)
        output y, z, w
    """
    assert_rewrites(share_equal, before, "y = relu(x)", "z = relu(x)", "w = negate(y)")


def test_attributes_and_quantisation_make_a_difference() -> None:
    graph = build("""
        input x: f32[3]
        a = leaky_relu(x; alpha=0.1)
        b = leaky_relu(x; alpha=0.2)
        c = relu(x)
        d = relu(x)
        e = add(a, b)
        f = add(c, d)
        y = add(e, f)
        output y
    """)
    graph = replace(graph, quantization={"c": Quantization((0.5,), (3,))})
    after = share_equal(graph)
    assert brief(after) == brief(graph)
    assert after.quantization == graph.quantization
