"""A batch that the caller has changed, and that must go through the model image by image.

Most files have a batch of one written into their reshapes and slices. Where nothing but the
leading size of inputs is changed, these follow it, so that every image gets what it would get
alone. What mixes the images of a batch, or keeps but one of them, is named in an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fourfold.formats.tflite.records import SubgraphRecord
from fourfold.types import Shape, TensorType


def batch_factor(
    record: SubgraphRecord, names: Sequence[str], types: Mapping[str, TensorType]
) -> int:
    """By how much the caller has changed the batch; 1 where he has not, or not that alone.

    Where the file leaves sizes open itself, it is taken at its word.
    """
    factors = set()
    for index in record.inputs:
        tensor, now = record.tensors[index], types[names[index]].shape
        if tensor.shape != now:
            factors.add(_growth(tensor.shape, now))
            factors.update([1] if -1 in (tensor.signature or ()) else [])
    return factors.pop() if len(factors) == 1 else 1


def _growth(own: Shape, now: Shape) -> int:
    whole = own and own[0] and own[1:] == now[1:] and now[0] % own[0] == 0
    return now[0] // own[0] if whole else 1


def axis_of_batch(own: Shape, now: Shape, factor: int) -> int | None:
    """The axis along which a value has grown with the batch; None where it has not."""
    if len(own) != len(now) or own == now:
        return None
    changed = [axis for axis, (old, new) in enumerate(zip(own, now, strict=True)) if old != new]
    axis, *others = changed
    return axis if not others and own[axis] * factor == now[axis] else None
