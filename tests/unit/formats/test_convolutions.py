"""Convolutions and pools shared by ONNX, Paddle and Caffe, tested without a format."""

from __future__ import annotations

import numpy as np
import pytest

from fourfold.backends.cpu.reference import evaluate
from fourfold.formats.budget import Budget
from fourfold.formats.builder import GraphBuilder
from fourfold.formats.operator_nodes import OperatorNodes
from fourfold.formats.rule_table import Unconvertible
from fourfold.formats.windows import (
    MAX_SPLIT_GROUPS,
    Deconvolution,
    add_pool,
    convolve,
    count_windows,
    deconvolve,
)
from fourfold.ops.base.window import Padding, Pair, PoolAxes
from fourfold.ops.conv2d import Conv2d
from fourfold.types import DType, Quantization, TensorType


def random_floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype(np.float32)


def make_nodes(**inputs: tuple[int, ...]) -> OperatorNodes:
    """Return the nodes of an operator with the output 'y'."""
    builder = GraphBuilder(Budget.of(1 << 20))
    for name, shape in inputs.items():
        builder.types[name] = TensorType(DType.F32, shape)
    return OperatorNodes(builder, "y", ("y",))


def op_names(nodes: OperatorNodes) -> list[str]:
    return [node.op for node in nodes.builder.nodes]


def evaluate_nodes(nodes: OperatorNodes, value: str, **arrays: np.ndarray) -> np.ndarray:
    nodes.give_value(value)
    return evaluate(nodes.builder.finish(tuple(arrays), ("y",), "main"), arrays)["y"]


def expected_deconvolution(
    x: np.ndarray, weights: np.ndarray, attributes: Deconvolution
) -> np.ndarray:
    """Add each pixel's filters at its position: [N,H,W,I] with weights [I,O / groups,H,W]."""
    images, height, width, channels = x.shape
    taps = weights.shape[2:]
    full = Deconvolution(attributes.stride, attributes.dilation).size((height, width), taps)
    each, outputs = channels // attributes.groups, weights.shape[1]
    y = np.zeros((images, *full, outputs * attributes.groups), np.float64)
    for row, column, channel, dy, dx in np.ndindex(height, width, channels, *taps):
        top = row * attributes.stride[0] + dy * attributes.dilation[0]
        left = column * attributes.stride[1] + dx * attributes.dilation[1]
        first = channel // each * outputs
        part = x[:, row, column, channel, None] * weights[channel, :, dy, dx]
        y[:, top, left, first : first + outputs] += part
    (before, after), (start, end) = attributes.padding.height, attributes.padding.width
    y = np.pad(y, ((0, 0), (0, attributes.extra[0]), (0, attributes.extra[1]), (0, 0)))
    return y[:, before : y.shape[1] - after, start : y.shape[2] - end]


GROUPS = {  # channels, groups, output channels per group: number of nodes
    (6, 1, 5): 1,
    (6, 6, 1): 1,
    (16, 16, 1): 4,
    (16, 16, 3): 4,
    (8, 2, 4): 2,
    (8, 2, 3): 1,
    (3 * MAX_SPLIT_GROUPS, 3 * MAX_SPLIT_GROUPS, 1): 24,
}


@pytest.mark.parametrize("numbers", GROUPS)
@pytest.mark.parametrize("dilation", [(1, 1), (2, 1)])
def test_deconvolves_groups(numbers: tuple[int, int, int], dilation: Pair) -> None:
    channels, groups, outputs = numbers
    attributes = Deconvolution((2, 1), dilation, Padding(1, 0, 0, 1), groups, (1, 0))
    x, weights, bias = (
        random_floats(2, 3, 2, channels),
        random_floats(channels, outputs, 3, 2),
        random_floats(outputs * groups),
    )
    nodes = make_nodes(x=x.shape)
    constants = [nodes.add_constant(array, "given") for array in (weights, bias)]
    value = deconvolve(nodes, "x", constants[0], constants[1], attributes)
    assert op_names(nodes).count("transpose_conv2d") == GROUPS[numbers]
    expected = expected_deconvolution(x, weights, attributes) + bias
    np.testing.assert_allclose(evaluate_nodes(nodes, value, x=x), expected, atol=1e-5)


def test_deconvolves_groups_with_computed_filters() -> None:
    attributes = Deconvolution(groups=3)
    x, weights = random_floats(1, 3, 2, 6), random_floats(6, 1, 2, 2)
    nodes = make_nodes(x=x.shape, w=weights.shape)
    value = deconvolve(nodes, "x", "w", None, attributes)
    assert op_names(nodes).count("transpose_conv2d") == 3
    result = evaluate_nodes(nodes, value, x=x, w=weights)
    np.testing.assert_allclose(result, expected_deconvolution(x, weights, attributes), atol=1e-5)


def test_rejects_unsupported_deconvolutions() -> None:
    many = MAX_SPLIT_GROUPS + 1
    nodes = make_nodes(x=(1, 3, 2, many), w=(many, 1, 2, 2), volume=(1, 2, 2, 2, 6))
    with pytest.raises(Unconvertible, match=f"its {many} groups are more than"):
        deconvolve(nodes, "x", "w", None, Deconvolution(groups=many))
    with pytest.raises(Unconvertible, match="computed at run time"):
        deconvolve(nodes, "x", "w", None, Deconvolution(dilation=(2, 2)))
    with pytest.raises(Unconvertible, match="not a filter of an image"):
        deconvolve(nodes, "volume", "w", None, Deconvolution())
    with pytest.raises(ValueError, match="in 4 groups cannot read"):
        deconvolve(nodes, "x", "w", None, Deconvolution(groups=4))


@pytest.mark.parametrize(("rank", "groups"), [(3, 1), (4, 1), (3, 6), (4, 6)])
def test_weights_keep_their_quantization(rank: int, groups: int) -> None:
    """Scales stay on the output axis of the filters when the weights are transposed."""
    inner = (7, 9)[: rank - 2]
    nodes = make_nodes(x=(1, *inner, 6))
    weights = nodes.add_constant(random_floats(12, 6 // groups, *(3, 3)[: rank - 2]), "weights")
    scales = tuple(0.1 * (index + 1) for index in range(12))
    nodes.builder.quantization[weights] = Quantization(scales, (0,) * 12, 0)
    convolve(nodes, "x", weights, None, Conv2d(groups=groups))
    conv = next(node for node in nodes.builder.nodes if "conv2d" in node.op)
    assert conv.op == ("conv2d" if groups == 1 else "depthwise_conv2d")
    stored = nodes.builder.quantization[str(conv.inputs[1])]
    assert (stored.axis, stored.scale) == (0 if groups == 1 else 3, scales)


def test_transposing_weights_respects_the_budget() -> None:
    """Constants are transposed at once within the budget, then by nodes."""
    nodes = make_nodes(x=(1, 5, 5, 64))
    nodes.builder.budget.left = 3 * 64 * 64 * 9 * 4
    for _ in range(5):
        weights = nodes.add_constant(random_floats(64, 64, 3, 3), "weights")
        convolve(nodes, "x", weights, None, Conv2d())
    assert op_names(nodes).count("transpose") == 2
    assert nodes.builder.budget.left == 0


def test_shared_weights_are_transposed_once() -> None:
    nodes = make_nodes(x=(1, 5, 5, 64))
    weights = nodes.add_constant(random_floats(64, 64, 3, 3), "weights")
    nodes.builder.budget.left = 64 * 64 * 9 * 4
    for _ in range(5):
        convolve(nodes, "x", weights, None, Conv2d())
    assert op_names(nodes).count("transpose") == 0
    assert nodes.builder.budget.left == 0


def expected_average(x: np.ndarray, attributes: PoolAxes, counts: bool) -> np.ndarray:
    """Return the mean under each window of [N,H,W,C], one by one."""
    pads = zip(attributes.before, attributes.after, strict=True)
    wide = np.pad(x, [(0, 0), *pads, (0, 0)])
    inside = np.pad(np.ones(x.shape[1:3]), [*zip(attributes.before, attributes.after, strict=True)])
    inside = np.ones_like(inside) if counts else inside
    y = np.zeros((x.shape[0], *attributes.size, x.shape[3]))
    for row, column in np.ndindex(*attributes.size):
        top, left = row * attributes.stride[0], column * attributes.stride[1]
        window = np.s_[top : top + attributes.filter[0], left : left + attributes.filter[1]]
        y[:, row, column] = wide[(slice(None), *window)].sum(axis=(1, 2)) / inside[window].sum()
    return y


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("size", [(3, 4), (4, 4)])
def test_average_pooling_counts_padding_only(counts: bool, size: Pair) -> None:
    x = random_floats(2, 7, 8, 3)
    attributes = PoolAxes((3, 3), (2, 2), (1, 1), (1, 1), (0, 1), size)
    nodes = make_nodes(x=x.shape)
    value = add_pool(nodes, "x", attributes, average=True, counts_padding=counts)
    assert op_names(nodes) == (["pad"] if counts else []) + ["average_pool2d"]
    expected = expected_average(x, attributes, counts)
    np.testing.assert_allclose(evaluate_nodes(nodes, value, x=x), expected, atol=1e-6)


def test_unusual_pools_use_general_ops() -> None:
    nodes = make_nodes(x=(1, 9, 9, 3), row=(1, 9, 3), volume=(1, 4, 4, 4, 3))
    nodes.builder.types["whole"] = TensorType(DType.I32, (1, 9, 9, 3))
    plane = {"before": (0, 0), "after": (0, 0), "size": (3, 3)}
    add_pool(nodes, "row", PoolAxes((2,), (1,), (1,), (0,), (0,), (8,)), average=False)
    add_pool(nodes, "x", PoolAxes((3, 3), (2, 2), (2, 2), **plane), average=False)
    add_pool(nodes, "whole", PoolAxes((3, 3), (3, 3), (1, 1), **plane), average=False)
    cube = {"before": (1,) * 3, "after": (0,) * 3, "size": (3,) * 3}
    add_pool(nodes, "volume", PoolAxes((3,) * 3, (1,) * 3, (1,) * 3, **cube), True, True)
    assert op_names(nodes) == [
        *("reshape", "max_pool2d", "reshape"),
        *("max_pool", "max_pool", "average_pool"),
    ]


def test_counts_windows() -> None:
    assert [count_windows(7, 3, 2, (0, 0), up) for up in (False, True)] == [3, 3]
    assert [count_windows(8, 3, 2, (0, 0), up) for up in (False, True)] == [3, 4]
    # The last window would begin behind the axis and its leading padding.
    assert count_windows(4, 1, 3, (1, 1), up=True) == 2
    with pytest.raises(ValueError, match="larger than the padded 5"):
        count_windows(4, 7, 1, (0, 1), up=False)
