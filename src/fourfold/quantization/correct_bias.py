"""Bias correction: compensate the mean error of rounded weights in the bias.

A sum of x * (w + d) exceeds one of x * w by x * d, whose mean follows from the mean of x. Fewer
products are added at the edges of a picture, which is neglected.
"""

from __future__ import annotations

import numpy as np

from fourfold.graph import Node
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.depthwise_conv2d import DepthwiseConv2d


def corrected_bias(
    node: Node, bias: np.ndarray | None, errors: np.ndarray, means: np.ndarray
) -> np.ndarray:
    """Return the bias of a weighted sum minus the mean error of its weights.

    `means` are the channel means of its input.
    """
    shift = _mean_shift(node, errors.astype(np.float64), means)
    old = 0.0 if bias is None else bias.astype(np.float64)
    return np.asarray(old - shift, np.float32)


def _mean_shift(node: Node, errors: np.ndarray, means: np.ndarray) -> np.ndarray:
    attributes = node.attributes
    if isinstance(attributes, DepthwiseConv2d):
        return np.asarray(errors.sum((0, 1, 2)) * np.repeat(means, attributes.multiplier))
    taps = errors if errors.ndim == 2 else errors.sum((1, 2))
    groups = attributes.groups if isinstance(attributes, Conv2d) else 1
    parts = means.reshape(groups, -1)
    by_group = taps.reshape(groups, -1, taps.shape[-1])
    return np.asarray(np.einsum("goi,gi->go", by_group, parts).reshape(-1))
