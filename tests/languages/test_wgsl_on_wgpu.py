"""Ops in WGSL, run with wgpu on the available Vulkan device, against their NumPy references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from op_kernels import WITH_KERNELS
from op_trials import IN_HALVES, TOLERANCE, trial
from random_graphs import build
from wgsl_on_wgpu import HALVES, LEAST, computes_halves, find_device, modules, play_on_wgpu

from fourfold.backends.cpu.reference import evaluate
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.ops.base import Case, registry

pytestmark = pytest.mark.skipif(find_device() is None, reason="no wgpu, or no Vulkan for it")
# Each op uses a feature that the others lack: conversions, selections, integers of all sizes,
# bools, local memory, loops with barriers, functions that the language lacks.
SELECTED_OPS = (
    "arg_max",
    "cast",
    "conv2d",
    "depthwise_conv2d",
    "floor_mod",
    "gelu",
    "mean",
    "softmax",
)
SELECTED_OPS += ("non_max_suppression", "power", "select", "top_indices")
FEWER = ("cast", "conv2d", "depthwise_conv2d", "mean")
SOFTWARE = replace(LEAST, kind="other", compute_units=8, local_memory=0)
# Ops that are undefined for fp16, or in which an fp16 rounding error changes an integer result.
NO_HALVES = ("blend_rows", "box_corners", "decode_boxes", "floor_div", "non_max_suppression")
NO_HALVES += ("spectrum", "suppress_boxes")


def quick(names: tuple[str, ...], every: Sequence[str] = WITH_KERNELS) -> list[object]:
    """Return all ops; these always run, the others only in slow tests."""
    return [name if name in names else pytest.param(name, marks=pytest.mark.slow) for name in every]


def check(
    name: str, device: DeviceInfo, options: KernelOptions, cases: tuple[Case, ...] = ()
) -> None:
    item, tolerance = trial(registry()[name], cases), TOLERANCE[options.precision]
    if any(map(_has_halves, item.cases)):
        tolerance = max(tolerance, TOLERANCE["mixed"])
    plan = make_plan(rewrite(item.graph), device, options)
    assert plan.requirements.language == "wgsl"
    item.check(play_on_wgpu(plan, item.inputs), tolerance)


@pytest.mark.parametrize("name", quick(SELECTED_OPS))
def test_in_full_precision(name: str) -> None:
    check(name, LEAST, KernelOptions("fp32"))


@pytest.mark.parametrize("name", quick(FEWER))
def test_in_mixed_precision(name: str) -> None:
    check(name, LEAST, KernelOptions("mixed"))


@pytest.mark.parametrize("name", quick(FEWER, IN_HALVES))
def test_in_half_precision(name: str) -> None:
    if not computes_halves():
        pytest.skip("this device has no fp16 arithmetic")
    check(name, HALVES, KernelOptions("fp16"))


@pytest.mark.parametrize("name", quick(FEWER))
def test_as_software_has_them(name: str) -> None:
    """Kernels for a CPU that emulates a GPU: its work-items run one by one."""
    check(name, SOFTWARE, KernelOptions("fp32"))


def _has_halves(case: Case) -> bool:
    return any(text is not None and text.startswith("f16") for text in case.inputs)


def halved(case: Case) -> Case:
    """Return the graph with fp16 values in memory."""
    inputs = tuple(None if text is None else text.replace("f32[", "f16[") for text in case.inputs)
    return replace(case, inputs=inputs)


@pytest.mark.parametrize("name", quick(FEWER))
def test_fp16_packed_in_words(name: str) -> None:
    """Inputs and outputs in fp16, as vectors and as single values, without the fp16 feature."""
    cases = tuple(one for one in map(halved, registry()[name].cases) if _has_halves(one))
    if not cases or name in NO_HALVES:
        pytest.skip("it has no halves")
    check(name, LEAST, KernelOptions("fp32"), cases)


def both(graph: Graph, *arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the results of the device and of the reference for some arrays."""
    plan = make_plan(rewrite(graph), LEAST, KernelOptions())
    (result,) = play_on_wgpu(plan, [*arrays])
    expected = evaluate(graph, dict(zip(graph.inputs, arrays, strict=True)))
    return result, expected[graph.outputs[0]]


INF = float("inf")
UNUSUAL = (0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 7.9, 88, -88, 1e30, -1e30, INF, -INF, 1e-30)


UNARY = ("tanh", "logistic", "erf", "gelu", "exp", "absolute", "floor", "ceil", "round", "relu6")


@pytest.mark.parametrize("op", [*UNARY, "hard_swish", "elu"])
def test_unusual_numbers(op: str) -> None:
    x = np.array(UNUSUAL, np.float32)
    graph = build(f"input x: f32[{x.size}]\ny = {op}(x)\noutput y")
    np.testing.assert_allclose(*both(graph, x), rtol=2e-5, atol=2e-6)


PAIRS = ((2, 3), (-2, 3), (-2, 2), (-2, 0.5), (0, 0), (0, 2), (5, 3), (-5, 3), (5, -3), (-5, -3))
PAIRS += ((7, 0.1), (3, INF), (-8, 3), (1, -1), (-1, -1), (0.3, 0.1))


@pytest.mark.parametrize("op", ["power", "remainder", "floor_mod", "atan2", "maximum", "minimum"])
def test_unusual_pairs(op: str) -> None:
    if op in ("remainder", "floor_mod"):
        pairs = np.array([pair for pair in PAIRS if pair[1]], np.float32)
    else:
        pairs = np.array(PAIRS, np.float32)
    count = len(pairs)
    graph = build(f"input x: f32[{count}]\ninput z: f32[{count}]\ny = {op}(x, z)\noutput y")
    results = both(graph, *(np.ascontiguousarray(column) for column in pairs.T))
    np.testing.assert_allclose(*results, rtol=2e-5, atol=1e-6)


def test_a_mask_of_infinities() -> None:
    graph = build("input x: f32[2,4]\ny = softmax(x)\noutput y")
    x = np.array([[1, 2, -INF, 3], [-INF, -INF, 0, -INF]], np.float32)
    np.testing.assert_allclose(*both(graph, x), atol=1e-6)


def test_more_groups_than_an_axis_takes() -> None:
    """Work beyond 65535 groups of 64 is reached along the second axis."""
    count = 65535 * 64 + 77
    graph = build(f"input x: f32[{count},4]\ny = negate(x)\noutput y")
    plan = make_plan(rewrite(graph), LEAST, KernelOptions())
    (launch,) = plan.launches
    groups = [size // by for size, by in zip(launch.grid, launch.local, strict=True)]
    assert groups == [65535, 2, 1]
    x = np.arange(count * 4, dtype=np.float32).reshape(count, 4)
    (result,) = play_on_wgpu(plan, [x])
    np.testing.assert_array_equal(result, -x)


def test_a_buffer_that_is_read_and_written_has_one_binding() -> None:
    """Parts of one value, of which a kernel reads one and writes the other."""
    graph = build(
        """
        input x: f32[1,4,4,8]
        a = tanh(x)
        b = exp(a)
        c = concat(a, b; axis=3)
        y = negate(c)
        output y
        """
    )
    plan = make_plan(rewrite(graph), LEAST, KernelOptions())
    assert ["w0"] in [marks for _, marks in modules(plan).values()]
    x = np.linspace(-1, 1, 128, dtype=np.float32).reshape(1, 4, 4, 8)
    np.testing.assert_allclose(*both(graph, x), rtol=2e-5)
