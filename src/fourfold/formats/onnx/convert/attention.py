"""Attention, with several kinds of masks, and rotary embeddings."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fourfold.formats.onnx.operation import Operation, converts
from fourfold.ops.base.rules import Reduce
from fourfold.ops.batch_matmul import BatchMatmul
from fourfold.ops.cast import Cast
from fourfold.ops.concat import Concat
from fourfold.ops.gather import Gather
from fourfold.ops.pad import Pad
from fourfold.ops.slice import Slice
from fourfold.ops.softmax import Softmax
from fourfold.types import DType, Shape

_MASKED = float("-inf")
_SCORES, _CAPPED, _BIASED, _WEIGHTS = range(4)  # possible contents of the fourth output


@dataclass(frozen=True)
class _Heads:
    """Queries, keys and values as [batch, heads, sequence, size]; keys, values include the past."""

    queries: str
    keys: str
    values: str
    past: int
    flat: bool  # whether the file has all heads in one axis


@converts("Attention")
def attention(op: Operation) -> None:
    """batch_matmul, softmax, batch_matmul; masks are added before the softmax."""
    heads = _heads(op)
    batch, count, rows, size = op.type_of(heads.queries).shape
    groups, keys = op.type_of(heads.keys).shape[1:3]
    if count % groups:
        raise ValueError(f"{count} query heads cannot share {groups} key heads")
    scale = op.real_attribute("scale", 1 / math.sqrt(size)) if op.has("scale") else size**-0.5
    # Query heads that share keys become rows of one product.
    shared = (batch, groups, count // groups * rows, size)
    queries = op.reshaped(heads.queries, shared, "shared")
    scores = op.add(
        "batch_matmul", queries, heads.keys, attributes=BatchMatmul(transposed=True), part="scores"
    )
    scores = op.reshaped(scores, (batch, count, rows, keys), "by_head")
    steps = [op.add("mul", scores, op.add_constant(scale, "scale"), part="scaled")]
    steps.append(_capped(op, steps[-1]))
    bias = _bias(op, heads, (batch, rows, keys))
    steps.append(steps[-1] if bias is None else op.add("add", steps[-1], bias, part="biased"))
    weights = op.add("softmax", steps[-1], attributes=Softmax(), part="weights")
    weights = weights if bias is None else _without_masked_rows(op, weights, bias)
    steps.append(weights)
    wide = op.reshaped(weights, (*shared[:3], keys), "rows")
    result = op.add("batch_matmul", wide, heads.values, attributes=BatchMatmul(), part="result")
    width = op.type_of(heads.values).shape[3]
    result = op.reshaped(result, (batch, count, rows, width), "heads")
    if heads.flat:
        result = op.transposed(result, (0, 2, 1, 3), "side_by_side")
        result = op.reshaped(result, (batch, rows, count * width), "flat")
    op.give_value(result)
    op.give_value(heads.keys, 1)
    op.give_value(heads.values, 2)
    op.give_value(steps[op.attribute("qk_matmul_output_mode", _SCORES)], 3)


def _heads(op: Operation) -> _Heads:
    flat = op.input_type(0).rank == 3
    heads, past = [], 0
    for index, name in enumerate(("q_num_heads", "kv_num_heads", "kv_num_heads")):
        value = op.input(index)
        if flat:
            batch, length, width = op.type_of(value).shape
            count = op.attribute(name, 0)
            if count < 1 or width % count:
                raise ValueError(f"{op.type_of(value)} does not have {count} heads")
            value = op.reshaped(value, (batch, length, count, width // count), f"split{index}")
            value = op.transposed(value, (0, 2, 1, 3), f"heads{index}")
        before = op.optional(index + 3) if index else None
        if before is not None:
            past = op.type_of(before).shape[2]
            value = op.add("concat", before, value, attributes=Concat(2), part=f"all{index}")
        heads.append(value)
    return _Heads(heads[0], heads[1], heads[2], past, flat)


def _capped(op: Operation, scores: str) -> str:
    """Return softcap * tanh(x / softcap)."""
    limit = op.real_attribute("softcap", 0.0)
    if limit <= 0:
        return scores
    bent = op.add(
        "tanh", op.add("mul", scores, op.add_constant(1 / limit, "less"), part="small"), part="bent"
    )
    return op.add("mul", bent, op.add_constant(limit, "limit"), part="capped")


def _bias(op: Operation, heads: _Heads, sizes: tuple[int, int, int]) -> str | None:
    """Return the bias of the scores: 0 where a query attends to a key, minus infinity elsewhere."""
    batch, rows, keys = sizes
    masks = []
    if op.optional(3) is not None:
        masks.append(_mask(op, op.input(3), keys))
    causal = bool(op.attribute("is_causal", 0))
    left, right = op.attribute("left_window_size", -1), op.attribute("right_window_size", -1)
    right = 0 if causal else right
    ahead = np.arange(keys)[None, :] - np.arange(rows)[:, None]
    if op.optional(6) is None:
        visible = _window(ahead - heads.past, left, right)
        if not visible.all():
            masks.append(
                op.add_constant(np.where(visible, 0, _MASKED).astype(np.float32), "window")
            )
    else:
        masks += _lengths_mask(op, ahead, (left, right), batch)
    if not masks:
        return None
    total = masks[0]
    for other in masks[1:]:
        total = op.add("add", total, other, part="masks")
    return total


def _window(ahead: np.ndarray, left: int, right: int) -> np.ndarray:
    """Return True for keys within the window around a query."""
    visible = np.ones(ahead.shape, np.bool_)
    visible &= (ahead >= -left) if left >= 0 else True
    return visible & ((ahead <= right) if right >= 0 else True)


def _mask(op: Operation, mask: str, keys: int) -> str:
    """Return a mask as a bias; keys beyond its end are masked."""
    if op.type_of(mask).dtype is DType.BOOL:
        mask = op.add(
            "select",
            mask,
            op.add_constant(0.0, "seen"),
            op.add_constant(_MASKED, "hidden"),
            part="mask",
        )
    shape = op.type_of(mask).shape
    if shape and shape[-1] < keys and shape[-1] != 1:
        zeros = (0,) * (len(shape) - 1)
        pad = Pad((*zeros, 0), (*zeros, keys - shape[-1]), _MASKED)
        mask = op.add("pad", mask, attributes=pad, part="whole_mask")
    return mask


def _lengths_mask(
    op: Operation, ahead: np.ndarray, window: tuple[int, int], batch: int
) -> list[str]:
    """Return masks for per-batch key lengths known at run time; queries are the last positions."""
    rows, keys = ahead.shape
    lengths = op.add("cast", op.input(6), attributes=Cast(DType.F32), part="lengths")
    lengths = op.reshaped(lengths, (batch, 1, 1, 1), "by_batch")
    position = op.add_constant(np.arange(keys, dtype=np.float32), "place")
    masks = [_hidden_unless(op, "less", position, lengths, "padding")]
    # A query's position is `length - rows + row`, so it sees keys with `ahead + rows <= length`.
    distance = op.add_constant((ahead + rows).astype(np.float32), "distance")
    left, right = window
    if right >= 0:
        maximum = op.add("add", lengths, op.add_constant(float(right), "right"), part="most")
        masks.append(_hidden_unless(op, "less_equal", distance, maximum, "ahead"))
    if left >= 0:
        minimum = op.add("sub", lengths, op.add_constant(float(left), "left"), part="least")
        masks.append(_hidden_unless(op, "greater_equal", distance, minimum, "behind"))
    return masks


def _hidden_unless(op: Operation, compare: str, a: str, b: str, part: str) -> str:
    holds = op.add(compare, a, b, part=f"{part}_seen")
    seen, hidden = op.add_constant(0.0, f"{part}_zero"), op.add_constant(_MASKED, f"{part}_least")
    return op.add("select", holds, seen, hidden, part=part)


def _without_masked_rows(op: Operation, weights: str, bias: str) -> str:
    """Zero the weights of a query for which all keys are masked."""
    mask = op.known(bias)
    if mask is not None and not (mask.max(axis=-1) == _MASKED).any():
        return weights
    last = op.type_of(bias).rank - 1
    largest = op.add(
        "reduce_max", bias, attributes=Reduce((last,), keep_dims=True), part="most_seen"
    )
    blind = op.add("equal", largest, op.add_constant(_MASKED, "nothing"), part="blind")
    return op.add("select", blind, op.add_constant(0.0, "none"), weights, part="guarded")


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
