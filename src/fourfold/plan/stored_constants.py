"""Constants as a prepared file stores them, expanded when the file is opened.

A plan's constants are a block of bytes, ready for upload. In a prepared file, larger constants of
the block are stored apart as `weights`, in the smallest form that gives the same bits: fp16 instead
of fp32, or bytes with a scale. They are in the model's order, so that plans for different devices
share them. This module expands them, and defines no classes, since each takes time at every start;
`encode_constants` finds the forms, and docs/internals/file-format.md describes the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.types import DType

if TYPE_CHECKING:
    from fourfold.plan.container import Container

MAX_AXES, MAX_DIMENSIONS = 4, 8
# A damaged file must not allocate any amount of memory. Constants have at most four times the bytes
# of their weights, and padding.
MAX_EXPANSION = 1024
CHUNK = 1 << 16  # elements that are converted at a time: they stay in the cache
ReadWeights = Callable[[int], np.ndarray]
Factors = Sequence[Sequence[int]]


def read_constants(
    stored: Sequence[Any], remaining: np.ndarray, file: Container, weights: Sequence[int]
) -> np.ndarray:
    """Return the block of constants that a plan's record describes. Its weights are in some of the
    sections `weights` of a file. Raises ValueError and similar errors if they are malformed.
    """

    def read_weights(number: int) -> np.ndarray:
        if type(number) is not int or not 0 <= number < len(weights):
            raise ValueError(f"there are no weights {number!r}")
        return np.frombuffer(file.section(weights[number], "weights"), np.uint8)

    size, pieces = stored
    if type(size) is not int or not 0 <= size <= MAX_EXPANSION * file.size:
        raise ValueError(f"the constants have an impossible size: {size!r}")
    return expand_constants(size, pieces, remaining, read_weights)


def expand_constants(
    size: int, records: Sequence[Any], remaining: np.ndarray, weights: ReadWeights
) -> np.ndarray:
    """Return a block of constants of `size` bytes. `remaining` are its bytes outside the pieces.

    Raises ValueError and similar errors if the records are malformed.
    """
    block, cursor, used = np.empty(size, np.uint8), 0, 0
    for record in records:
        start, name, shape, factors, order, *stored = record
        dimensions = _checked_dimensions(shape, factors, order)
        dtype = DType(name).numpy
        end = start + prod(dimensions) * dtype.itemsize
        gap = start - cursor
        if type(start) is not int or start % dtype.itemsize or gap < 0 or end > size:
            raise ValueError("the pieces of the constants overlap")
        block[cursor:start] = remaining[used : used + gap]
        target = block[start:end].view(dtype).reshape(dimensions)
        _expand((shape, factors, order), stored, weights, target)
        used, cursor = used + gap, end
    block[cursor:] = remaining[used:]
    return block


def arrange(
    array: np.ndarray, factors: Factors, order: Sequence[int], padding: int = 0
) -> np.ndarray:
    """Return the elements of an array in the order in which a kernel reads them, as a view where
    possible: padded, split by the factors of each axis, and transposed.
    """
    padded = tuple(map(prod, factors))
    if padded != array.shape:
        content, array = array, np.full(padded, padding, array.dtype)
        array[tuple(map(slice, content.shape))] = content
    return array.reshape([size for sizes in factors for size in sizes]).transpose(order)


def _checked_dimensions(shape: Any, factors: Any, order: Any) -> list[int]:
    """Return the dimensions of a piece as they are in memory; ValueError if they are invalid."""
    sizes = [size for sizes in factors for size in sizes]
    for size in (*shape, *sizes):
        if type(size) is not int or not 1 <= size < 2**40:
            raise ValueError("a layout has sizes that are not positive")
    if not 1 <= len(shape) <= MAX_AXES or len(shape) != len(factors):
        raise ValueError("a layout has the wrong number of axes")
    if len(sizes) > MAX_DIMENSIONS or sorted(order) != [*range(len(sizes))]:
        raise ValueError("the order of a layout is invalid")
    if any(size > prod(whole) for size, whole in zip(shape, factors, strict=True)):
        raise ValueError("a layout is smaller than its array")
    return [sizes[number] for number in order]


def _expand(layout: Any, stored: Sequence[Any], weights: ReadWeights, target: np.ndarray) -> None:
    """Write a piece into its place in the block, which has the dimensions of its layout."""
    (shape, factors, order), (number, name, *grid) = layout, stored
    source = _array(weights, number, DType(name), shape)
    if grid:
        zero = grid[0]
        if type(zero) is not int or not 0 <= zero <= 255 or source.dtype != np.uint8:
            raise ValueError("the grid of weights is invalid")
        _expand_grid(arrange(source, factors, order, zero), layout, grid, weights, target)
    elif source.dtype == target.dtype:
        target[...] = arrange(source, factors, order)
    elif source.dtype == np.float16 and target.dtype == np.float32:
        for part, place, _ in _chunks(arrange(source, factors, order), target):
            bits = np.ascontiguousarray(part).view(np.uint16)
            np.take(_halves(), bits, out=place, mode="wrap")  # "raise" would copy
    else:
        raise ValueError("weights have another type than their piece")


def _expand_grid(
    steps: np.ndarray, layout: Any, grid: Sequence[Any], weights: ReadWeights, target: np.ndarray
) -> None:
    """Write (step - zero) * scale, rounded to fp32 and then to the type of the target."""
    zero, scale, axis = grid
    if scale is None:
        np.subtract(steps, zero, out=target, casting="unsafe")
        return
    scales = _scale(scale) if axis is None else _scales(layout, scale, axis, weights)
    many, middle = scales.ndim > 0 and len(scales) > 1, np.float32(zero)
    for part, place, rows in _chunks(steps, target):
        numbers = place if place.dtype == np.float32 else np.empty(place.shape, np.float32)
        # Bytes are arranged before they are converted: they are the smallest form.
        numbers[...] = np.ascontiguousarray(part)
        np.subtract(numbers, middle, out=numbers)  # exact
        np.multiply(numbers, scales[rows] if many else scales, out=numbers)
        if numbers is not place:
            place[...] = numbers


def _chunks(
    source: np.ndarray, target: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, slice]]:
    """Yield parts of two arrays along their first dimension, and the slice that they are."""
    step = max(1, CHUNK * len(source) // source.size)
    for first in range(0, len(source), step):
        rows = slice(first, first + step)
        yield source[rows], target[rows], rows


@cache
def _halves() -> np.ndarray:
    """Return all fp16 numbers as fp32, by their bits: a lookup is faster than a conversion."""
    with np.errstate(invalid="ignore"):  # numbers that are not finite do not occur
        return np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)


def _scale(scale: Any) -> np.ndarray:
    if type(scale) not in (int, float):
        raise ValueError(f"{scale!r} is not a scale")
    return np.array(scale, np.float32)


def _scales(layout: Any, number: Any, axis: Any, weights: ReadWeights) -> np.ndarray:
    """Return one scale for each index along an axis, arranged for broadcasting."""
    shape, factors, order = layout
    if type(axis) is not int or not 0 <= axis < len(shape):
        raise ValueError("the axis of a grid is invalid")
    along = [size if one == axis else 1 for one, size in enumerate(shape)]
    array = _array(weights, number, DType.F32, along)
    ones = [sizes if one == axis else [1] * len(sizes) for one, sizes in enumerate(factors)]
    return arrange(array, ones, order)


def _array(weights: ReadWeights, number: Any, dtype: DType, shape: Sequence[int]) -> np.ndarray:
    data = weights(number)
    if data.nbytes != prod(shape) * dtype.size:
        raise ValueError("weights have the wrong size")
    return data.view(dtype.numpy).reshape(shape)
