"""keep_integer_steps: weighted sums of quantized numbers become sums of integers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from random_graphs import assert_equal, brief, build

from fourfold.backends.cpu.reference import evaluate
from fourfold.compiler.rewrite import check
from fourfold.compiler.rewrite.keep_integer_steps import keep_integer_steps
from fourfold.graph import Graph
from fourfold.types import Quantization

CONV = "stride=(1, 1), dilation=(1, 1), padding=Padding(1, 1, 1, 1), groups=1"


def convolution(extra: str = "", outputs: str = "q") -> Graph:
    """Return a convolution of a quantized input, with weights and bias stored as integers."""
    graph = build(f"""
        input x: i8[1,5,6,4]
        const w: f32[3,3,3,4]
        const b: f32[3]
        r = dequantize(x; scale=0.03, zero_point=4)
        y = conv2d(r, w, b; {CONV})
        z = fake_quantize(y; scale=0.2, low=0, high=255)
        {extra}
        q = quantize(z; scale=0.2, low=-120, high=135, zero_point=-8, to=DType.I8)
        output {outputs}
    """)
    rng = np.random.default_rng(0)
    scales = np.array([0.01, 0.02, 0.03], np.float32)
    steps = rng.integers(-127, 128, (3, 3, 3, 4)).astype(np.float32)
    bias = rng.integers(-900, 900, 3).astype(np.float32)
    constants = {
        "w": steps * scales.reshape(3, 1, 1, 1),
        "b": bias * scales * np.float32(0.03),
    }
    grids = {
        "w": Quantization(tuple(map(float, scales)), (0, 0, 0), 0),
        "b": Quantization(tuple(float(s) * 0.03 for s in scales), (0, 0, 0), 0),
    }
    return replace(graph, constants=constants, quantization=grids)


def ops(graph: Graph) -> list[str]:
    return [line.split("(")[0] for line in brief(graph)]


def test_convolution_sums_integers() -> None:
    before = convolution()
    after = keep_integer_steps(before)
    check(after)
    assert ops(after) == [
        "r/steps = dequantize",
        "y/sum = conv2d",
        "y/scaled = mul",
        "z/steps = fake_quantize",
        "q = quantize",
    ]
    weights = after.constants[str(after.producers["y/sum"].inputs[1])]
    assert np.array_equal(weights, np.rint(weights))
    x = np.random.default_rng(1).integers(-128, 128, (1, 5, 6, 4)).astype(np.int8)
    ours, theirs = (evaluate(graph, {"x": x})["q"] for graph in (after, before))
    assert np.abs(ours.astype(int) - theirs).max() <= 1
    assert np.mean(ours != theirs) < 0.05


def test_a_bias_with_its_own_grid_is_rounded_to_the_grid_of_the_sum() -> None:
    before = convolution()
    own = Quantization((2.0**-24,), (0,))
    before = replace(before, quantization={**before.quantization, "b": own})
    after = keep_integer_steps(before)
    assert "y/sum = conv2d" in ops(after)
    x = np.random.default_rng(1).integers(-128, 128, (1, 5, 6, 4)).astype(np.int8)
    ours, theirs = (evaluate(graph, {"x": x})["q"] for graph in (after, before))
    assert np.abs(ours.astype(int) - theirs).max() <= 1
    assert np.mean(ours != theirs) < 0.05


def test_stops_at_other_ops() -> None:
    once = keep_integer_steps(convolution())
    assert brief(keep_integer_steps(once)) == brief(once)


def test_ops_that_move_elements_keep_steps() -> None:
    extra = "t = transpose(z; permutation=(0, 2, 1, 3))\n        p = max_pool2d(t; POOL)"
    pool = "filter=(2, 2), stride=(1, 1), padding=Padding(0, 0, 0, 0)"
    after = keep_integer_steps(convolution(extra.replace("POOL", pool), "q, p"))
    check(after)
    assert "t/steps = transpose" in ops(after)
    assert "p/steps = max_pool2d" in ops(after)
    assert ops(after)[-1] == "p = dequantize"


def test_real_numbers_for_readers_that_need_them() -> None:
    after = keep_integer_steps(convolution("e = exp(z)", "q, e"))
    check(after)
    assert "z = dequantize" in ops(after)
    assert after.producers["e"].inputs == ("z",)


def test_pad_value_is_in_steps() -> None:
    graph = build("""
        input x: f32[2,3]
        y = fake_quantize(x; scale=0.5, low=-8, high=7)
        z = pad(y; before=(1, 0), after=(0, 0), value=1.5)
        output z
    """)
    after = keep_integer_steps(graph)
    assert_equal(graph, after)
    assert after.producers["z/steps"].attributes.value == 3.0  # type: ignore[attr-defined]


def test_a_sum_that_is_not_rounded_stays_real() -> None:
    after = keep_integer_steps(convolution("e = exp(y)", "q, e"))
    assert after.producers["y"].inputs[1] == "w"


def test_graphs_of_floats_are_left_alone() -> None:
    graph = build("""
        input x: f32[2,3]
        y = relu(x)
        output y
    """)
    assert keep_integer_steps(graph) is graph
