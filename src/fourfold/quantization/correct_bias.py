"""Bias correction: rounded weights shift the mean of a sum, and its bias can shift it back.

A sum of x * (w + d) is larger than one of x * w by x * d, whose mean is known where the mean of x
is. At the edge of a picture fewer products are added, which is left out of account here.
"""

from __future__ import annotations

import numpy as np

from fourfold.graph import Node
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.depthwise_conv2d import DepthwiseConv2d


def corrected_bias(
    node: Node, bias: np.ndarray | None, errors: np.ndarray, means: np.ndarray
) -> np.ndarray:
    """The bias of a weighted sum, less the mean of what the errors of its weights add.

    `means` are those of the channels of its input.
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
