"""Type rules, attributes, references and test cases that several ops share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from itertools import zip_longest

import numpy as np

from fourfold.graph import NONE
from fourfold.ops.base import Case, Types, reject
from fourfold.types import DType, Shape, TensorType

Infer = Callable[..., Types]
Kinds = frozenset[DType]

ANY: Kinds = frozenset(DType)
FLOATS: Kinds = frozenset(dtype for dtype in DType if dtype.is_float)
INTEGERS: Kinds = frozenset(dtype for dtype in DType if dtype.is_integer)
NUMBERS: Kinds = FLOATS | INTEGERS
BOOLS: Kinds = frozenset({DType.BOOL})
INDICES: Kinds = frozenset({DType.I32, DType.I64})

SHAPES = ("[]", "[7]", "[3,5]", "[2,1,11]", "[2,5,7,13]", "[2,1,3,5,7]")
PAIRS = (
    ("[]", "[]"),
    ("[7]", "[]"),
    ("[3,5]", "[5]"),
    ("[1,11]", "[3,1]"),
    ("[2,1,11]", "[2,3,1]"),
    ("[2,5,7,13]", "[2,5,7,13]"),
    ("[2,5,7,3]", "[2,1,1,3]"),
    ("[13]", "[2,3,5,13]"),
    ("[2,1,3,5,7]", "[3,1,7]"),
)


@dataclass(frozen=True)
class Reduce:
    """Axes to reduce (not negative, ascending); `keep_dims` keeps each as an axis of size one."""

    axes: tuple[int, ...]
    keep_dims: bool


@dataclass(frozen=True)
class Resize:
    """The new height and width, and the convention for pixel centers."""

    size: tuple[int, int]
    align_corners: bool = False
    half_pixel_centers: bool = False


def require(fits: bool, op: str, why: str) -> None:
    """Raise the type error of `op` unless `fits` is true."""
    if not fits:
        raise reject(op, why)


def require_kind(op: str, kinds: Kinds, *types: TensorType) -> None:
    """Require that all types have one dtype, and that `kinds` contains it."""
    names = " and ".join(dict.fromkeys(type.dtype.value for type in types))
    require(len({type.dtype for type in types}) == 1, op, f"it cannot mix {names}")
    require(types[0].dtype in kinds, op, f"it is not defined for {names}")


def require_rank(op: str, what: str, type: TensorType, rank: int) -> None:
    require(type.rank == rank, op, f"{what} is {type}, but must have rank {rank}")


def require_axis(op: str, axis: int, rank: int) -> None:
    require(0 <= axis < rank, op, f"axis {axis} is not one of the {rank} axes")


def takes(op: str, minimum: int, maximum: int | None = None) -> Callable[[Infer], Infer]:
    """Check the number of inputs before the type rule runs.

    Inputs beyond `minimum` are optional and may be None. `maximum` defaults to `minimum`.
    """
    limit = minimum if maximum is None else maximum

    def decorate(rule: Infer) -> Infer:
        @wraps(rule)
        def infer(attributes: object, *types: TensorType | None) -> Types:
            count = len(types)
            fits = minimum <= count <= limit and None not in types[:minimum]
            require(fits, op, f"it takes {minimum} to {limit} inputs, but got {count}")
            return rule(attributes, *types)

        return infer

    return decorate


def same_type(op: str, kinds: Kinds = FLOATS) -> Infer:
    """Return a type rule whose result has the type of the only input."""

    @takes(op, 1)
    def infer(attributes: object, x: TensorType) -> Types:
        require_kind(op, kinds, x)
        return (x,)

    return infer


def broadcast(op: str, kinds: Kinds = NUMBERS) -> Infer:
    """Return the type rule of two inputs of one dtype that broadcast as in NumPy."""

    @takes(op, 2)
    def infer(attributes: object, a: TensorType, b: TensorType) -> Types:
        require_kind(op, kinds, a, b)
        return (a.with_shape(*stretched(op, a.shape, b.shape)),)

    return infer


def stretched(op: str, *shapes: Shape) -> Shape:
    """Return the shape that all shapes broadcast to."""
    result: Shape = ()
    for shape in shapes:
        pairs = list(zip_longest(reversed(result), reversed(shape), fillvalue=1))
        fits = all(x == y or 1 in (x, y) for x, y in pairs)
        names = " and ".join(str(list(each)) for each in shapes)
        require(fits, op, f"shapes {names} do not broadcast")
        result = tuple(y if x == 1 else x for x, y in reversed(pairs))
    return result


def reduced_type(op: str, kinds: Kinds) -> Infer:
    """Return the type rule of a reduction over the axes of `Reduce`."""

    @takes(op, 1)
    def infer(attributes: Reduce, x: TensorType) -> Types:
        require_kind(op, kinds, x)
        axes = attributes.axes
        ascending = list(axes) == sorted(set(axes))
        require(ascending, op, f"axes {list(axes)} are not ascending and distinct")
        for axis in axes:
            require_axis(op, axis, x.rank)
            require(x.shape[axis] > 0, op, f"axis {axis} of {x} is empty")
        sizes = enumerate(x.shape)
        kept = (1 if axis in axes else size for axis, size in sizes if _stays(attributes, axis))
        return (x.with_shape(*kept),)

    return infer


def _stays(attributes: Reduce, axis: int) -> bool:
    return attributes.keep_dims or axis not in attributes.axes


def resized_type(op: str, kinds: Kinds) -> Infer:
    """Return the type rule of a resize of [N,H,W,C] to the size of `Resize`."""

    @takes(op, 1)
    def infer(attributes: Resize, x: TensorType) -> Types:
        require_kind(op, kinds, x)
        require_rank(op, "the input", x, 4)
        require(
            min(*x.shape[1:3], *attributes.size) > 0, op, f"{x} cannot become {attributes.size}"
        )
        return (x.with_shape(x.shape[0], *attributes.size, x.shape[3]),)

    return infer


def resize_step(attributes: Resize, axis: int, size: int) -> np.float32:
    """Return the distance in the input for one step in the output (axis 0 is the height)."""
    out = attributes.size[axis]
    if attributes.align_corners and out > 1:
        return np.float32(size - 1) / np.float32(out - 1)
    return np.float32(size) / np.float32(out)


def elementwise(function: Callable[..., object]) -> Callable[..., np.ndarray]:
    """Return the reference of an op without attributes. Results of rank 0 stay arrays."""

    def reference(attributes: object, *arrays: np.ndarray) -> np.ndarray:
        return np.asarray(function(*arrays), arrays[0].dtype)

    return reference


def unary_cases(
    *attributes: object, dtype: str = "f32", low: float = -3.0, high: float = 3.0
) -> tuple[Case, ...]:
    """Return a case for every rank and each of the attributes."""
    return tuple(
        Case((dtype + shape,), each, low=low, high=high)
        for each in attributes or (NONE,)
        for shape in SHAPES
    )


def broadcast_cases(
    dtype: str = "f32", low: float = -3.0, high: float = 3.0, most: int = len(PAIRS)
) -> tuple[Case, ...]:
    """Return cases of shapes that broadcast, and with a constant on either side."""
    free = tuple(Case((dtype + a, dtype + b), low=low, high=high) for a, b in PAIRS[:most])
    shapes = (f"{dtype}[2,3,5,7]", f"{dtype}[7]")
    return (
        *free,
        Case(shapes, constants=(1,), low=low, high=high),
        Case(shapes[::-1], constants=(0,), low=low, high=high),
    )


def reduce_cases(dtype: str = "f32", low: float = -3.0, high: float = 3.0) -> tuple[Case, ...]:
    table = (
        ("[]", (), False),
        ("[7]", (0,), False),
        ("[3,5]", (1,), True),
        ("[3,5]", (0,), False),
        ("[2,3,11]", (1,), False),
        ("[2,5,7,13]", (1, 2), True),
        ("[2,5,7,13]", (1, 2), False),
        ("[2,5,7,13]", (3,), True),
        ("[2,5,1,3]", (0, 1, 2, 3), False),
        ("[2,3,1,5,7]", (1, 4), False),
    )
    return tuple(
        Case((dtype + shape,), Reduce(axes, keep), low=low, high=high)
        for shape, axes, keep in table
    )


def comparison_type(op: str, kinds: Kinds = NUMBERS) -> Infer:
    """Return the type rule of a comparison: two inputs of one dtype that broadcast, bool out."""
    rule = broadcast(op, kinds)

    def infer(attributes: object, *types: TensorType | None) -> Types:
        (result,) = rule(attributes, *types)
        return (result.with_dtype(DType.BOOL),)

    return infer


def comparison_reference(function: Callable[..., object]) -> Callable[..., np.ndarray]:
    """Return the reference of a comparison. Results of rank 0 stay arrays."""

    def reference(attributes: object, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(function(a, b), np.bool_)

    return reference


def comparison_cases() -> tuple[Case, ...]:
    """Return cases with fractions, and with few different integers so that many are equal."""
    return broadcast_cases() + broadcast_cases("i32", low=-2, high=2)
