"""A corrected bias removes the mean error that rounded weights cause."""

from __future__ import annotations

import numpy as np
import pytest

from fourfold.export.quantize.assign import corrected_bias
from fourfold.graph import NONE, Node
from fourfold.ops.base import registry
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.depthwise_conv2d import DepthwiseConv2d

CASES = {
    "conv2d": (Conv2d(), (6, 3, 3, 4), (1, 9, 9, 4)),
    "conv2d in groups": (Conv2d(groups=2), (6, 3, 3, 2), (1, 9, 9, 4)),
    "depthwise_conv2d": (DepthwiseConv2d(multiplier=2), (1, 3, 3, 8), (1, 9, 9, 4)),
    "fully_connected": (NONE, (6, 4), (81, 4)),
}


@pytest.mark.parametrize("title", CASES)
def test_the_mean_of_each_channel_is_preserved(title: str) -> None:
    attributes, shape, given = CASES[title]
    op, random = title.split()[0], np.random.default_rng(3)
    weights = random.standard_normal(shape).astype(np.float32)
    errors = random.standard_normal(shape).astype(np.float32) / 10
    channels = random.uniform(-2, 2, 4).astype(np.float32)
    x = np.broadcast_to(channels, given)  # every pixel equals the mean, so the correction is exact
    outputs = shape[-1] if op == "depthwise_conv2d" else shape[0]
    bias = random.standard_normal(outputs).astype(np.float32)
    node = Node(op, ("x", "w", "b"), ("y",), attributes)
    better = corrected_bias(node, bias, errors, channels.astype(np.float64))
    reference = registry()[op].reference
    wanted = reference(attributes, x, weights, bias)
    assert np.allclose(reference(attributes, x, weights + errors, better), wanted, atol=1e-4)
    assert not np.allclose(reference(attributes, x, weights + errors, bias), wanted, atol=1e-2)
    alone = corrected_bias(node, None, errors, channels.astype(np.float64))
    assert np.allclose(alone, better - bias, atol=1e-5)
