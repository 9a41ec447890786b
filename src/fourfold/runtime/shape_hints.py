"""What to say of an array whose shape does not fit: how it would, where that can be seen."""

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
    """An array made to fit: what to write behind it, its shape then, and what was wrong."""

    text: str
    shape: Shape
    why: str


def shape_error(info: TensorInfo, given: Any, shape: Shape, called: str = "x") -> InputError:
    """Why an array of this shape does not fit, and what to pass instead of what is `called` so."""
    what = f"input {info.name!r} has shape {shape}, not {info.shape}"
    hint = next((one for one in _rearranged(info, given, shape) if info.takes(one.shape)), None)
    if hint is not None:
        return InputError(what, hint.why, f"pass {called}{hint.text}")
    why = f"the model leaves no size open that would allow it: {info.signature or info.shape}"
    fix = f"reshape the array, or the model: session.resize({{{info.name!r}: {shape}}})"
    return InputError(what, why, fix)


def _rearranged(info: TensorInfo, given: Any, shape: Shape) -> Iterator[Rearranged]:
    """What could have been meant, the likeliest first."""
    permute = "permute" if hasattr(given, "permute") else "transpose"
    yield Rearranged("[None]", (1, *shape), BATCH)
    if shape:
        more = "it has an axis more than the model"
        why = more if shape[0] == 1 else f"{more}, which runs on one of the {shape[0]} at a time"
        yield Rearranged("[0]", shape[1:], why)
    yield Rearranged("[..., None]", (*shape, 1), "the axis of channels is missing")
    yield Rearranged("[None, ..., None]", (1, *shape, 1), f"{BATCH}, and that of channels")
    for axes, why in _channel_moves(len(shape)):
        moved = tuple(shape[axis] for axis in axes)
        text = f".{permute}{axes}"
        yield Rearranged(text, moved, why)
        yield Rearranged(f"{text}[None]", (1, *moved), f"{BATCH}, and {why}")
    flat = len(shape) == 1 and math.prod(shape) == math.prod(info.shape)
    if flat or _longer(shape) == _longer(info.shape):
        yield Rearranged(f".reshape({info.shape})", info.shape, "its axes are others")


def _channel_moves(rank: int) -> Sequence[tuple[Shape, str]]:
    """Channels from the front to the end and back; behind the batch axis where there is one."""
    if rank < 3:
        return ()
    axes = tuple(range(rank))
    batch, rest = (axes[:1], axes[1:]) if rank > 3 else ((), axes)
    return (((*batch, *rest[1:], rest[0]), FIRST), ((*batch, rest[-1], *rest[:-1]), LAST))


def _longer(shape: Shape) -> Shape:
    """The sizes that are not 1."""
    return tuple(size for size in shape if size != 1)
