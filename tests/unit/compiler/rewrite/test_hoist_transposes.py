"""hoist_transposes: a transpose moves before the pad that only it reads."""

from __future__ import annotations

from random_graphs import assert_rewrites

from fourfold.compiler.rewrite.hoist_transposes import hoist_transposes

BEFORE = """
    input x: f32[1,3,4,5]
    a = pad(x; before=(0, 0, 1, 2), after=(0, 0, 3, 4))
    b = pad(a; before=(0, 1, 0, 0), after=(0, 0, 0, 0), value=7.0)
    y = transpose(b; permutation=(0, 2, 3, 1))
    output y{0}
"""


def test_a_transpose_passes_pads() -> None:
    assert_rewrites(
        hoist_transposes,
        BEFORE.format(""),
        "a = transpose(x; permutation=(0, 2, 3, 1))",
        "b = pad(a; before=(0, 1, 2, 0), after=(0, 3, 4, 0))",
        "y = pad(b; before=(0, 0, 0, 1), after=(0, 0, 0, 0), value=7.0)",
    )


def test_keeps_pads_with_other_readers() -> None:
    before = BEFORE.format(", b")
    lines = [line.strip() for line in before.strip().splitlines()]
    assert_rewrites(hoist_transposes, before, *lines[1:4])
