"""merge_roundings: values stored as integers are rounded once."""

from __future__ import annotations

from random_graphs import assert_rewrites

from fourfold.compiler.rewrite.merge_roundings import merge_roundings

QUANTIZE = "quantize({}; scale=0.5, low=-8, high=7, zero_point=3, to=DType.I8)"


def test_the_narrower_limits_stay() -> None:
    before = f"""
        input x: f32[3]
        y = fake_quantize(x; scale=0.5, low=0, high=9)
        z = {QUANTIZE.format("y")}
        output z
    """
    after = "z = quantize(x; scale=0.5, low=0, high=7, zero_point=3, to=DType.I8)"
    assert_rewrites(merge_roundings, before, after)


def test_another_reader_keeps_the_rounding() -> None:
    lines = ("y = fake_quantize(x; scale=0.5, low=0, high=9)", "z = " + QUANTIZE.format("y"))
    before = f"""
        input x: f32[3]
        {lines[0]}
        {lines[1]}
        w = relu(y)
        output z, w
    """
    assert_rewrites(merge_roundings, before, *lines, "w = relu(y)")


def test_other_scales_stay() -> None:
    lines = ("y = fake_quantize(x; scale=0.25, low=0, high=9)", "z = " + QUANTIZE.format("y"))
    before = f"""
        input x: f32[3]
        {lines[0]}
        {lines[1]}
        output z
    """
    assert_rewrites(merge_roundings, before, *lines)
