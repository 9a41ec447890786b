"""Loads of the elements that match another tensor's elements under broadcasting."""

from __future__ import annotations

from fourfold.codegen.byte_io import load_two
from fourfold.codegen.expression import Expression, const, lift, vector, where, widen
from fourfold.codegen.view import View


def load_for(
    view: View,
    target: View,
    pixel: Expression,
    slice_: Expression,
    run: int = 1,
    slices: int = 1,
) -> Expression:
    """Load the elements of a view that broadcast to those of `target` at (pixel, slice).

    `run` neighbouring pixels, or `slices` neighbouring slices of one pixel, give a vector of `4 *
    run` or `4 * slices` lanes. Channels that a view with several channels lacks are zeros.
    """
    if slices > 1:
        return vector(*(load_for(view, target, pixel, slice_ + step) for step in range(slices)))
    if run == 2 and view.type.shape == target.type.shape:
        both = load_two(view, pixel, slice_)
        if both is not None:
            return both
    first = _broadcast(view, target, pixel, slice_)
    if run == 1:
        return first
    if view.type.pixels == 1 != target.type.pixels:
        return vector(*[first] * run)
    others = [_broadcast(view, target, pixel + step, slice_) for step in range(1, run)]
    return vector(first, *others)


def _broadcast(view: View, target: View, pixel: Expression, slice_: Expression) -> Expression:
    rank = target.type.rank
    mine = (1,) * (rank - view.type.rank) + view.type.shape
    theirs = target.type.shape
    if mine[:-1] == theirs[:-1]:
        source_pixel = pixel
    elif view.type.pixels == 1:
        source_pixel = const(0)
    else:
        skipped = rank - view.type.rank
        coordinates = target.coordinates(pixel)[skipped:]
        own = zip(view.type.shape[:-1], coordinates, strict=True)
        source_pixel = view.pixel([const(0) if size == 1 else at for size, at in own])
    if view.type.channels == 1 and target.type.channels != 1:
        return widen(view.kernel.let(view.lane(source_pixel, 0, 0), view.pointer.name + "_v"), 4)
    if 1 < view.type.channels < target.type.channels:
        value = view.load(source_pixel, slice_, lift(slice_) < view.slices)
        return mask_beyond(view, value, slice_, const(0, view.kind, 4))
    return view.load(source_pixel, slice_)


def mask_beyond(
    view: View, value: Expression, slice_: Expression, neutral: Expression
) -> Expression:
    """Return the value with `neutral` in the lanes beyond the last channel."""
    channels_in_last = view.type.channels % 4
    if channels_in_last == 0:
        return value
    fill = neutral.lane(0)
    masked = vector(*(value.lane(lane) if lane < channels_in_last else fill for lane in range(4)))
    return view.kernel.let(where(slice_.equals(view.slices - 1), masked, value), "masked")
