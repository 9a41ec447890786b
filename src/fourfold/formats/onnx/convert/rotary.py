"""RotaryEmbedding: rotates pairs of numbers by an angle that depends on their position."""

from __future__ import annotations

from fourfold.formats.onnx.operation import Operation
from fourfold.formats.onnx.rule import converts
from fourfold.ops.concat import Concat
from fourfold.ops.gather import Gather
from fourfold.ops.slice import Slice
from fourfold.types import Shape


@converts("RotaryEmbedding")
def rotary_embedding(op: Operation) -> None:
    """slices, products with sines and cosines, and concat."""
    x = op.input_type(0)
    value = op.input(0)
    if x.rank == 3:
        count = op.attribute("num_heads", 0)
        if count < 1 or x.channels % count:
            raise ValueError(f"{x} does not have {count} heads")
        value = op.reshaped(value, (*x.shape[:2], count, x.channels // count), "heads")
    else:
        value = op.transposed(value, (0, 2, 1, 3), "heads")
    shape = op.type_of(value).shape
    rotated = op.attribute("rotary_embedding_dim", 0) or shape[3]
    if rotated % 2 or rotated > shape[3]:
        raise ValueError(f"{rotated} of {shape[3]} numbers cannot be rotated in pairs")
    result = _rotate(op, value, rotated)
    if rotated < shape[3]:
        remainder = _cut(op, value, rotated, shape[3] - rotated, 1)
        result = op.add("concat", result, remainder, attributes=Concat(3), part="whole")
    if x.rank == 3:
        op.give_value(op.reshaped(result, x.shape, "flat"))
    else:
        op.give_value(op.transposed(result, (0, 2, 1, 3), "back"))


def _cut(op: Operation, value: str, first: int, count: int, step: int) -> str:
    """Return a slice of the last axis."""
    shape = op.type_of(value).shape
    box = Slice((0, 0, 0, first), (*shape[:3], count), (1, 1, 1, step))
    return op.add("slice", value, attributes=box, part=f"from{first}")


def _rotate(op: Operation, value: str, count: int) -> str:
    """Rotate the first numbers of each head in pairs: neighbors, or one from each half."""
    interleaved = bool(op.attribute("interleaved", 0))
    half, shape = count // 2, op.type_of(value).shape
    starts, step = ((0, 1), 2) if interleaved else ((0, half), 1)
    a, b = (_cut(op, value, start, half, step) for start in starts)
    cosines, sines = (_angles(op, index, shape, half) for index in (1, 2))
    real = op.add(
        "sub", op.add("mul", a, cosines, part="ac"), op.add("mul", b, sines, part="bs"), part="real"
    )
    other = op.add(
        "add",
        op.add("mul", a, sines, part="as"),
        op.add("mul", b, cosines, part="bc"),
        part="other",
    )
    if not interleaved:
        return op.add("concat", real, other, attributes=Concat(3), part="turned")
    pairs = [op.reshaped(part, (*shape[:3], half, 1), "single") for part in (real, other)]
    joined = op.add("concat", *pairs, attributes=Concat(4), part="pairs")
    return op.reshaped(joined, (*shape[:3], count), "turned")


def _angles(op: Operation, index: int, shape: Shape, half: int) -> str:
    """Return the sines or cosines of all positions as [batch, sequence, 1, half]."""
    value = op.input(index)
    if op.optional(3) is not None:
        value = op.add("gather", value, op.input(3), attributes=Gather(), part=f"angles{index}")
    batch = op.type_of(value).shape[0]
    if op.type_of(value).shape != (batch, shape[1], half):
        raise ValueError(f"{op.type_of(value)} are not angles for {list(shape)}")
    return op.reshaped(value, (batch, shape[1], 1, half), f"column{index}")
