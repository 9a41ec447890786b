"""Ops along axes: sums, means, extrema, softmax, cumulative sums, Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from fourfold.formats.tflite.schema import TYPES
from fourfold.formats.tflite.write_graph.node_writer import NARROW, Grids, NodeWriter, writes
from fourfold.ops.arg_max import ArgMax
from fourfold.ops.base.rules import Reduce
from fourfold.ops.cumsum import Cumsum
from fourfold.ops.local_response import LocalResponse
from fourfold.ops.rfft2d import Rfft2d
from fourfold.ops.softmax import Softmax
from fourfold.ops.top_indices import TopIndices
from fourfold.types import DType

_PLAIN = {
    "reduce_all": "REDUCE_ALL",
    "reduce_any": "REDUCE_ANY",
    "reduce_prod": "REDUCE_PROD",
    "sum": "SUM",
}


def _reduce(to: NodeWriter, op: str) -> None:
    attributes = to.attributes(Reduce)
    if not attributes.axes:
        to.give_tensor(to.input(0))
        return
    axes = to.integers(attributes.axes, "axes")
    to.give(op, [to.input(0), axes], keep_dims=attributes.keep_dims)


@writes("mean", grids=Grids.ANY)
def mean(to: NodeWriter) -> None:
    """MEAN."""
    _reduce(to, "MEAN")


@writes("reduce_max", "reduce_min", grids=Grids.SAME)
def reduce_extreme(to: NodeWriter) -> None:
    """REDUCE_MAX or REDUCE_MIN."""
    _reduce(to, to.node.op.upper())


@writes(*_PLAIN)
def reduce(to: NodeWriter) -> None:
    """The operator of the same name."""
    _reduce(to, _PLAIN[to.node.op])


@writes("softmax", grids=Grids.FIXED)
def softmax(to: NodeWriter) -> None:
    """SOFTMAX."""
    to.give("SOFTMAX", [to.input(0)], beta=to.attributes(Softmax).beta)


@writes("log_softmax", grids=Grids.FIXED, integers=NARROW)
def log_softmax(to: NodeWriter) -> None:
    """LOG_SOFTMAX."""
    to.give("LOG_SOFTMAX", [to.input(0)])


@writes("l2_normalize", grids=Grids.FIXED, integers=NARROW)
def l2_normalize(to: NodeWriter) -> None:
    """L2_NORMALIZATION."""
    to.give("L2_NORMALIZATION", [to.input(0)], activation=0)


@writes("local_response")
def local_response(to: NodeWriter) -> None:
    """LOCAL_RESPONSE_NORMALIZATION."""
    a, x = to.attributes(LocalResponse), to.input(0)
    fields: dict[str, Any] = {
        "radius": a.radius,
        "bias": a.bias,
        "alpha": a.alpha,
        "beta": a.beta,
    }
    op, image = "LOCAL_RESPONSE_NORMALIZATION", (1, 1, x.type.pixels, x.type.channels)
    if len(x.shape) == len(image):
        to.give(op, [x], **fields)
        return
    result = to.step(op, [to.reshaped(x, image)], image, **fields)
    to.give("RESHAPE", [result, to.shape(x.shape)], new_shape=x.shape)


@writes("cumsum")
def cumsum(to: NodeWriter) -> None:
    """CUMSUM."""
    a = to.attributes(Cumsum)
    axis = to.constant(np.array(a.axis, np.int32), "axis")
    to.give("CUMSUM", [to.input(0), axis], exclusive=a.exclusive, reverse=a.reverse)


@writes("arg_max", grids=Grids.ANY, integers=NARROW)
def arg_max(to: NodeWriter) -> None:
    """ARG_MAX, then RESHAPE if the axis is kept; reversed to find the last of equal elements."""
    a, x = to.attributes(ArgMax), to.input(0)
    axis = to.constant(np.array(a.axis, np.int32), "axis")
    fields = {"output_type": TYPES.index(a.dtype)}
    if not a.keep_dims and not a.last:
        to.give("ARG_MAX", [x, axis], **fields)
        return
    shape = x.shape[: a.axis] + x.shape[a.axis + 1 :]
    if a.last:
        x = to.step("REVERSE_V2", [x, to.integers((a.axis,), "axes")], x.shape)
    indices = to.temporary("ARG_MAX", to.result_type().with_shape(*shape))
    to.draft.operator("ARG_MAX", [x, axis], [indices], **fields)
    if a.last:
        end = to.constant(np.array(x.shape[a.axis] - 1, a.dtype.numpy), "end")
        indices = to.step("SUB", [end, indices], shape)
    target = to.result_type().shape
    to.give("RESHAPE", [indices, to.shape(target)], new_shape=target)


@writes("top_indices", grids=Grids.SAME, integers=NARROW)
def top_indices(to: NodeWriter) -> None:
    """TOPK_V2, of which only the indices are used."""
    x, count = to.input(0), to.attributes(TopIndices).count
    number = to.constant(np.array(count, np.int32), "count")
    best = to.temporary("TOPK_V2", x.type.with_shape(*x.shape[:-1], count), x.quantization)
    indices = to.output_tensor()
    assert indices.dtype is DType.I32
    to.draft.operator("TOPK_V2", [x, number], [best, indices])
    to.give_tensor(indices)


@writes("rfft2d")
def rfft2d(to: NodeWriter) -> None:
    """RFFT2D, for lengths that are powers of two."""
    size = to.attributes(Rfft2d).size
    if any(number & (number - 1) for number in size):
        raise to.refuse(f"LiteRT only transforms powers of two, not {size[0]} by {size[1]}")
    to.give("RFFT2D", [to.input(0), to.integers(size, "lengths")])
