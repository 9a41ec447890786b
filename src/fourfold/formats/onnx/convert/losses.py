"""Classification losses, which some models compute next to their predictions."""

from __future__ import annotations

import numpy as np

from fourfold.formats.onnx.operation import Operation, converts
from fourfold.ops.base.rules import Reduce
from fourfold.ops.gather import Gather
from fourfold.ops.gather_elements import GatherElements
from fourfold.types import DType


@converts("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(op: Operation) -> None:
    """log_softmax over the classes, then as NegativeLogLikelihoodLoss."""
    rank = op.input_type(0).rank
    scores = op.transposed(op.input(0), (0, *range(2, rank), 1), "classes_last")
    logs = op.add("log_softmax", scores, part="logs")
    op.give_value(op.transposed(logs, (0, rank - 1, *range(1, rank - 1)), "log_prob"), 1)
    _loss(op, logs)


@converts("NegativeLogLikelihoodLoss")
def negative_log_likelihood_loss(op: Operation) -> None:
    """gather_elements by class, weighted, and reduced."""
    rank = op.input_type(0).rank
    _loss(op, op.transposed(op.input(0), (0, *range(2, rank), 1), "classes_last"))


def _loss(op: Operation, logs: str) -> None:
    """Write the mean or sum of the negative log likelihood of the target classes."""
    target, reduction = op.input(1), op.text_attribute("reduction", "mean")
    shape, dtype = op.type_of(target).shape, op.type_of(logs).dtype
    weights, target = _weights(op, target, dtype)
    column = op.reshaped(target, (*shape, 1), "column")
    picked = op.add(
        "gather_elements", logs, column, attributes=GatherElements(len(shape)), part="picked"
    )
    loss = op.add("negate", op.reshaped(picked, shape, "by_place"), part="loss")
    if weights is not None:
        loss = op.add("mul", loss, weights, part="weighed")
    if reduction == "none":
        op.give_value(loss)
        return
    over = Reduce(tuple(range(len(shape))), keep_dims=False)
    if reduction == "sum" or weights is not None:
        total = op.add("sum", loss, attributes=over, part="sum")
        if reduction == "mean" and weights is not None:
            total = op.add(
                "div", total, op.add("sum", weights, attributes=over, part="all"), part="mean"
            )
        op.give_value(total)
    else:
        op.give("mean", loss, attributes=over)


def _weights(op: Operation, target: str, dtype: DType) -> tuple[str | None, str]:
    """Return the weight of each element (None if all are one), and a valid class for each."""
    weights = op.optional(2)
    if not op.has("ignore_index"):
        if weights is not None:
            weights = op.add("gather", weights, target, attributes=Gather(), part="weights")
        return weights, target
    index = op.type_of(target).dtype.numpy
    ignored = op.add_constant(np.array(op.attribute("ignore_index", 0), index), "ignored")
    skipped = op.add("equal", target, ignored, part="skipped")
    target = op.add(
        "select", skipped, op.add_constant(np.array(0, index), "any"), target, part="class"
    )
    counted = op.add_constant(1.0, "one", dtype)
    if weights is not None:
        counted = op.add("gather", weights, target, attributes=Gather(), part="weights")
    return op.add(
        "select", skipped, op.add_constant(0.0, "zero", dtype), counted, part="counted"
    ), target
