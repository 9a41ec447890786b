"""Numbers beyond the range of fp16 (masks, padding, weights) stay finite in `mixed` precision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fake_devices import target_of
from random_graphs import build

from fourfold.backends import make_player
from fourfold.backends.cpu.reference import evaluate
from fourfold.backends.interpreter.device import PLAIN_GPU
from fourfold.backends.null import NULL_GPU
from fourfold.codegen import context
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan, specialise, storage
from fourfold.compiler.lower.half_range import values_beyond_half
from fourfold.compiler.lower.specialise import specialise_target
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.graph import Graph

MIXED = KernelOptions("mixed")
# Different forms of a mask: `keep` is 1 for columns that count and 0 for others.
MASKS = {
    "select": """
        const zero: f32[] = 0
        const large: f32[] = -3.4028235e38
        some = greater(keep, zero)
        mask = select(some, zero, large)
        y = add(scores, mask)
    """,
    "select_scores": """
        const zero: f32[] = 0
        const large: f32[] = -3.4028235e38
        some = greater(keep, zero)
        y = select(some, scores, large)
    """,
    "product": """
        const one: f32[] = 1
        const large: f32[] = -1e9
        none = sub(one, keep)
        mask = mul(none, large)
        y = add(scores, mask)
    """,
    "difference": """
        const one: f32[] = 1
        const large: f32[] = 1e9
        none = sub(one, keep)
        mask = mul(none, large)
        y = sub(scores, mask)
    """,
    "infinity": """
        const zero: f32[] = 0
        const one: f32[] = 1
        const large: f32[] = -inf
        some = greater(keep, zero)
        mask = select(some, zero, large)
        y = add(scores, mask)
    """,
}

# The softmax of a row of infinities is undefined in any precision.
PATTERNS = [
    *((mask, kept) for mask in MASKS for kept in ("all", "some")),
    *((mask, "none") for mask in MASKS if mask != "infinity"),
]


@pytest.fixture
def no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the size limit below which values stay in fp32."""
    monkeypatch.setattr(storage, "MAX_FP32_ELEMENTS", 0)
    monkeypatch.setattr(context, "MAX_FP32_WEIGHTS", 0)
    monkeypatch.setattr(specialise, "MAX_FP32_ARENA_BYTES", 0)


def attention(mask: str) -> Graph:
    return build(
        f"""
        input x: f32[2,13,8]
        input keep: f32[2,1,13]
        scores = batch_matmul(x, x; transposed=True)
        {MASKS[mask]}
        z = softmax(y)
        w = batch_matmul(z, x)
        output w
        """
    )


def play(graph: Graph, device: DeviceInfo, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    player = make_player(device, make_plan(rewrite(graph, verify=True), device, MIXED))
    player.poison()
    found = player.run([inputs[name] for name in graph.inputs])
    player.close()
    return found


@pytest.mark.usefixtures("no_limits")
@pytest.mark.parametrize(("mask", "kept"), PATTERNS)
def test_masked_attention_matches_fp32(mask: str, kept: str, device: DeviceInfo) -> None:
    graph, random = attention(mask), np.random.default_rng(4)
    columns = {"all": np.ones(13), "some": np.arange(13) % 3 > 0, "none": np.zeros(13)}[kept]
    inputs = {
        "x": random.uniform(-1, 1, (2, 13, 8)).astype(np.float32),
        "keep": np.broadcast_to(columns, (2, 1, 13)).astype(np.float32),
    }
    (found,) = play(graph, device, inputs)
    (wanted,) = evaluate(graph, inputs).values()
    assert np.isfinite(wanted).all()
    np.testing.assert_allclose(found, wanted, atol=5e-3)


def beyond(text: str) -> set[str]:
    return set(values_beyond_half(build(text)))


@pytest.mark.parametrize(
    ("last", "stays"),
    [
        ("y = softmax(m)", False),
        ("y = logistic(m)", False),
        ("y = relu6(m)", False),
        ("y = relu(m)", False),
        ("y = exp(m)", False),
        ("y = maximum(m, x)", False),
        ("y = max_pool2d(m; filter=(2,2), stride=(2,2))", False),
        ("y = minimum(m, x)", True),
        ("y = negate(m)", True),
        ("y = transpose(m; permutation=(0,2,1,3))", True),
        ("y = mul(m, x)", True),
        ("y = log_softmax(m)", True),
    ],
)
def test_how_far_a_large_number_reaches(last: str, stays: bool) -> None:
    found = beyond(
        f"""
        input x: f32[1,4,4,8]
        const large: f32[] = -1e9
        m = add(x, large)
        {last}
        output y
        """
    )
    assert found == ({"m", "y"} if stays else {"m"})


@pytest.mark.parametrize(
    ("line", "reaches"),
    [
        ("y = maximum(x, c)", False),  # never smaller than x
        ("y = minimum(x, c)", True),
        ("y = div(x, c)", False),
        ("y = greater(x, c)", False),
        ("y = pad(x; before=(0,1,1,0), after=(0,0,0,0), value=-3e38)", True),
    ],
)
def test_which_ops_pass_on_large_constants(line: str, reaches: bool) -> None:
    text = f"input x: f32[1,4,4,8]\nconst c: f32[] = -3e38\n{line}\noutput y"
    assert beyond(text) == ({"y"} if reaches else set())


def test_infinities_are_exact_in_fp16() -> None:
    assert not beyond("input x: f32[4]\nconst c: f32[4] = -inf\ny = add(x, c)\noutput y")


def test_a_rounding_behind_it_hides_a_large_bias() -> None:
    """Sums of quantized models are large integers."""
    graph = build(
        """
        input x: f32[1,4,4,8]
        const w: f32[8,1,1,8]
        const b: f32[8] = 1e9
        s = conv2d(x, w, b)
        y = fake_quantize(s; scale=1e7, low=-128, high=127, step=1.0)
        z = relu(y)
        output z
        """
    )
    assert not values_beyond_half(rewrite(graph)) & {"y", "z"}


def test_fp16_arithmetic_falls_back_to_fp32() -> None:
    graph = attention("select")
    asked = target_of(NULL_GPU, KernelOptions("fp16"))
    assert specialise_target(graph, asked).options.precision == "mixed"
    plain = build("input x: f32[1,8]\ny = relu(x)\noutput y")
    assert specialise_target(plain, asked).options.precision == "fp16"


@pytest.mark.usefixtures("no_limits")
@pytest.mark.parametrize(
    "line",
    [
        "const w: f32[8,1,1,8] = 1e5\ny = conv2d(x, w)",
        "const w: f32[1,3,3,8] = 1e5\ny = depthwise_conv2d(x, w)",
        "const w: f32[8,8] = 1e5\ny = fully_connected(x, w)",
    ],
)
def test_weights_beyond_fp16_stay_fp32(line: str, device: DeviceInfo) -> None:
    graph = build(f"input x: f32[1,5,5,8]\n{line}\noutput y")
    x = np.random.default_rng(2).uniform(-1e-3, 1e-3, (1, 5, 5, 8)).astype(np.float32)
    (found,), (wanted,) = play(graph, device, {"x": x}), evaluate(graph, {"x": x}).values()
    np.testing.assert_allclose(found, wanted, atol=1e-2 * np.abs(wanted).max())


@pytest.mark.parametrize(
    "line",
    [
        "y = mean(x; axes=(1,2), keep_dims=True)",
        "y = average_pool2d(x; filter=(61,67), stride=(1,1))",
        "y = l2_normalize(x)",
    ],
)
def test_long_fp16_sums_accumulate_in_fp32(line: str) -> None:
    """The sum, or the sum of squares, exceeds fp16; the result does not."""
    graph = build(f"input x: f32[1,61,67,5]\n{line}\noutput y")
    device = replace(PLAIN_GPU, half_arithmetic=True)
    x = np.random.default_rng(6).uniform(150, 220, (1, 61, 67, 5)).astype(np.float32)
    plan = make_plan(rewrite(graph, verify=True), device, KernelOptions("fp16"))
    player = make_player(device, plan)
    player.poison()
    (found,), (wanted,) = player.run([x]), evaluate(graph, {"x": x}).values()
    np.testing.assert_allclose(found, wanted, rtol=2e-3)
