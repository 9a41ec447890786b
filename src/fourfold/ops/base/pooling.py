"""Pooling over any number of axes of [N, ..., C], with dilation and windows beyond the padding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fourfold.ops.base import Types
from fourfold.ops.base.rules import Infer, Kinds, require, require_kind, takes
from fourfold.types import Shape, TensorType


@dataclass(frozen=True)
class PoolAxes:
    """Attributes of a pool, with one number for each axis between batch and channels.

    `before` and `after` are the padding, `size` is the output size.
    """

    filter: Shape
    stride: Shape
    dilation: Shape
    before: Shape
    after: Shape
    size: Shape

    @property
    def axes(self) -> int:
        return len(self.filter)


def pool_axes_type(op: str, kinds: Kinds) -> Infer:
    """Return the type rule of a pool over [N, ..., C]; windows may end anywhere."""

    @takes(op, 1)
    def infer(attributes: PoolAxes, x: TensorType) -> Types:
        require_kind(op, kinds, x)
        groups = (attributes.stride, attributes.dilation, attributes.before, attributes.after)
        counts = {len(numbers) for numbers in (attributes.filter, attributes.size, *groups)}
        require(counts == {x.rank - 2}, op, f"{attributes} does not match the inner axes of {x}")
        smallest = min(
            attributes.filter + attributes.stride + attributes.dilation + attributes.size
        )
        require(smallest > 0, op, "filter, stride, dilation and size must be positive")
        require(min(attributes.before + attributes.after) >= 0, op, "padding must not be negative")
        require(min(x.shape) > 0, op, f"{x} is empty")
        return (x.with_shape(x.shape[0], *attributes.size, x.channels),)

    return infer


def tap_views(attributes: PoolAxes, x: np.ndarray, fill: float) -> Iterator[np.ndarray]:
    """Yield, for each filter tap, the elements under it in every window; `fill` outside of x."""
    around = [(0, 0)]
    spans = []
    for axis in range(attributes.axes):
        span = (attributes.size[axis] - 1) * attributes.stride[axis] + 1
        reach = span + (attributes.filter[axis] - 1) * attributes.dilation[axis]
        before, size = attributes.before[axis], x.shape[1 + axis]
        around.append((before, max(0, reach - before - size)))
        spans.append(span)
    padded = np.pad(x, [*around, (0, 0)], constant_values=fill)
    for tap in np.ndindex(attributes.filter):
        starts = [number * step for number, step in zip(tap, attributes.dilation, strict=True)]
        cuts = zip(starts, spans, attributes.stride, strict=True)
        inner = (slice(start, start + span, step) for start, span, step in cuts)
        yield padded[(slice(None), *inner)]
