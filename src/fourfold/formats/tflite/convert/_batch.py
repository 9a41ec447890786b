"""Whether an operator takes the images of a batch each alone."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.errors import InputError
from fourfold.formats.tflite.batch import axis_of_batch
from fourfold.formats.tflite.convert._operation import Operation
from fourfold.graph import Node


def check_batch(operation: Operation, outputs: Sequence[str], nodes: Sequence[Node]) -> None:
    """Raises where it does not. `nodes` are what the operator became."""
    builder = operation.builder
    if builder.factor == 1:
        return
    axes = _carrying(operation)
    for node in nodes:
        for name in node.inputs if node.op == "concat" else node.inputs[:1]:
            if name in axes and _works_along(node.attributes, axes[name]):
                raise _mixes(operation, "it works along the axis of the batch")
    for name, own in zip(outputs, operation.declared, strict=True):
        now = builder.types[name]
        if not axes or name in builder.constants or own.rank != now.rank:
            continue
        if axis_of_batch(own.shape, now.shape, builder.factor) is None:
            raise _mixes(operation, f"it makes {now}, and {own} without a batch")


def _carrying(operation: Operation) -> dict[str, int]:
    """The values that it reads and that grow with the batch, each with the axis of that."""
    builder = operation.builder
    found = {
        name: axis_of_batch(own.shape, builder.types[name].shape, builder.factor)
        for name, own in zip(operation.inputs, operation.read, strict=True)
        if name is not None and own is not None and name not in builder.constants
    }
    return {name: axis for name, axis in found.items() if axis is not None}


def _works_along(attributes: object, axis: int) -> bool:
    along = getattr(attributes, "axis", None)
    return along == axis or axis in (getattr(attributes, "axes", None) or ())


def _mixes(operation: Operation, why: str) -> InputError:
    title = f"{operation.record.title} '{operation.name}'"
    fix = "run the images one after the other, or export the model with that batch"
    return InputError(f"{title} does not take the images of a batch each alone", why, fix)
