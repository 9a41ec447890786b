"""Error messages for arrays of the wrong shape, with the expression that would make them fit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fourfold.errors import InputError
from fourfold.runtime.tensor_info import TensorInfo
from fourfold.types import Shape

BATCH = "the batch axis is missing"
FIRST, LAST = (
    "its channels come first, the model's last",
    "its channels come last, the model's first",
)


class Rearranged(NamedTuple):
    """A change that makes an array fit: the expression to append, the shape it gives, and the
    cause.
    """

    text: str
    shape: Shape
    why: str


def shape_error(info: TensorInfo, given: Any, shape: Shape, called: str = "x") -> InputError:
    """Return the error for an array of the wrong shape. `called` is the expression for the array in
    the suggested fix.
    """
    what = f"input {info.name!r} has shape {shape}, not {info.shape}"
    hint = next((one for one in _rearranged(info, given, shape) if info.takes(one.shape)), None)
    if hint is not None:
        return InputError(what, hint.why, f"pass {called}{hint.text}")
    why = f"the model has no dynamic size that allows it: {info.signature or info.shape}"
    fix = f"reshape the array, or the model: session.resize({{{info.name!r}: {shape}}})"
    return InputError(what, why, fix)


def _rearranged(info: TensorInfo, given: Any, shape: Shape) -> Iterator[Rearranged]:
    """Yield possible changes, the most likely first."""
    permute = "permute" if hasattr(given, "permute") else "transpose"
    yield Rearranged("[None]", (1, *shape), BATCH)
    if shape:
        more = "it has one axis more than the model"
        why = more if shape[0] == 1 else f"{more}, which runs one of the {shape[0]} at a time"
        yield Rearranged("[0]", shape[1:], why)
    yield Rearranged("[..., None]", (*shape, 1), "the channel axis is missing")
    yield Rearranged("[None, ..., None]", (1, *shape, 1), f"{BATCH}, and the channel axis")
    for axes, why in _channel_moves(len(shape)):
        moved = tuple(shape[axis] for axis in axes)
        text = f".{permute}{axes}"
        yield Rearranged(text, moved, why)
        yield Rearranged(f"{text}[None]", (1, *moved), f"{BATCH}, and {why}")
    flat = len(shape) == 1 and math.prod(shape) == math.prod(info.shape)
    if flat or _longer(shape) == _longer(info.shape):
        yield Rearranged(f".reshape({info.shape})", info.shape, "its axes differ")


def _channel_moves(rank: int) -> Sequence[tuple[Shape, str]]:
    """Return permutations that move channels from first to last and back, after the batch axis if
    there is one.
    """
    if rank < 3:
        return ()
    axes = tuple(range(rank))
    batch, inner = (axes[:1], axes[1:]) if rank > 3 else ((), axes)
    return (((*batch, *inner[1:], inner[0]), FIRST), ((*batch, inner[-1], *inner[:-1]), LAST))


def _longer(shape: Shape) -> Shape:
    """Return the sizes that are not 1."""
    return tuple(size for size in shape if size != 1)
