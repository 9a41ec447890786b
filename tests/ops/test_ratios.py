"""The input of a logarithm needs relative precision: in fp16 models it is as exact as in fp32."""

from __future__ import annotations

import numpy as np
import pytest
from half_precision import skip_without_halves
from interpreted_devices import NVIDIA, PLAIN
from random_graphs import build

from fourfold.backends import make_player
from fourfold.backends.cpu.reference import evaluate
from fourfold.codegen import context
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan, specialise, storage
from fourfold.compiler.lower.storage import (
    LOG_PATH_OPS,
    nodes_for_logarithms,
    values_for_logarithms,
)
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.ops.base import registry

INTERPRETED = (PLAIN, NVIDIA)
SPECTRUM = """
    input x: f32[1,1,151,1]
    const low: f32[1,1,13,1]
    const waves: f32[7,1,31,1]
    const small: f32[] = 1e-9
    a = conv2d(x, low)
    b = conv2d(a, waves)
    c = square(b)
    d = sum(c; axes=(1,), keep_dims=True)
    e = add(d, small)
    f = log(e)
    output f
"""


@pytest.fixture
def no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the size limit below which values stay in fp32."""
    monkeypatch.setattr(storage, "MAX_FP32_ELEMENTS", 0)
    monkeypatch.setattr(context, "MAX_FP32_WEIGHTS", 0)
    monkeypatch.setattr(specialise, "MAX_FP32_ARENA_BYTES", 0)


@pytest.mark.usefixtures("no_limits")
@pytest.mark.parametrize("precision", ["mixed", "fp16"])
def test_log_spectrum_matches_fp32(precision: str, device: DeviceInfo) -> None:
    """Some of its numbers are small compared with the terms of their sums."""
    skip_without_halves(device, precision)
    graph = build(SPECTRUM)
    x = np.random.default_rng(5).uniform(-1, 1, (1, 1, 151, 1)).astype(np.float32)
    player = make_player(
        device, make_plan(rewrite(graph, verify=True), device, KernelOptions(precision))
    )
    (found,) = player.run([x])
    player.close()
    np.testing.assert_allclose(found, evaluate(graph, {"x": x})["f"], atol=2e-3)


def test_log_paths_name_existing_ops() -> None:
    assert registry().keys() >= LOG_PATH_OPS


def made_of(text: str) -> Graph:
    return build(f"input x: f32[1,5,7,11]\nconst w: f32[11,1,1,11]\n{text}\noutput y")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a = conv2d(x, w)\nb = sqrt(a)\ny = log(b)", "x a b"),
        ("a = conv2d(x, w)\nb = relu(a)\nc = conv2d(b, w)\ny = log(c)", "b c"),
        ("a = conv2d(x, w)\nb = softmax(a)\ny = log(b)", "b"),
        ("a = log(x)\nb = conv2d(a, w)\ny = tanh(b)", "x"),
        ("a = conv2d(x, w)\ny = sqrt(a)", ""),
    ],
)
def test_an_activation_ends_a_log_path(text: str, values: str) -> None:
    assert values_for_logarithms(made_of(text)) == {*values.split()}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        # One node with a tail: relu before the logarithm, and relu after it.
        ("a = conv2d(x, w)\nb = conv2d(a, w)\nc = relu(b)\ny = log(c)", ""),
        ("a = conv2d(x, w)\nb = conv2d(a, w)\nc = log(b)\ny = relu(c)", "x a"),
    ],
)
def test_tails_are_checked(text: str, values: str) -> None:
    graph = rewrite(made_of(text))
    assert values_for_logarithms(graph) == {*values.split()}
    assert "y" in nodes_for_logarithms(graph)
    assert ("a" in nodes_for_logarithms(graph)) == bool(values)
