"""What several ops share: type rules, attributes, references and cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from itertools import zip_longest

import numpy as np

from fourfold.graph import NONE
from fourfold.op import Case, Types, reject
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
    """Which axes go (not negative, ascending), and whether each leaves a one behind."""

    axes: tuple[int, ...]
    keep_dims: bool


@dataclass(frozen=True)
class Resize:
    """The new height and width, and where the centres of pixels lie."""

    size: tuple[int, int]
    align_corners: bool = False
    half_pixel_centers: bool = False


def require(fits: bool, op: str, why: str) -> None:
    """Reject the inputs of `op` unless they fit."""
    if not fits:
        raise reject(op, why)


def require_kind(op: str, kinds: Kinds, *types: TensorType) -> None:
    """All of one element type, and that one known to the op."""
    names = " and ".join(dict.fromkeys(type.dtype.value for type in types))
    require(len({type.dtype for type in types}) == 1, op, f"it cannot mix {names}")
    require(types[0].dtype in kinds, op, f"it is not defined for {names}")


def require_rank(op: str, what: str, type: TensorType, rank: int) -> None:
    require(type.rank == rank, op, f"{what} is {type}, but must have rank {rank}")


def require_axis(op: str, axis: int, rank: int) -> None:
    require(0 <= axis < rank, op, f"axis {axis} is not one of the {rank} axes")


def takes(op: str, least: int, most: int | None = None) -> Callable[[Infer], Infer]:
    """Check how many inputs came before the rule sees them; those beyond `least` may be None."""
    limit = least if most is None else most

    def decorate(rule: Infer) -> Infer:
        @wraps(rule)
        def infer(attributes: object, *types: TensorType | None) -> Types:
            count = len(types)
            fits = least <= count <= limit and None not in types[:least]
            require(fits, op, f"it takes {least} to {limit} inputs, but was given {count}")
            return rule(attributes, *types)

        return infer

    return decorate


def same_type(op: str, kinds: Kinds = FLOATS) -> Infer:
    """The result has the type of the only input."""

    @takes(op, 1)
    def infer(attributes: object, x: TensorType) -> Types:
        require_kind(op, kinds, x)
        return (x,)

    return infer


def broadcast(op: str, kinds: Kinds = NUMBERS) -> Infer:
    """Two inputs of one element type; axes count from the last, and ones stretch."""

    @takes(op, 2)
    def infer(attributes: object, a: TensorType, b: TensorType) -> Types:
        require_kind(op, kinds, a, b)
        return (a.with_shape(*stretched(op, a.shape, b.shape)),)

    return infer


def stretched(op: str, *shapes: Shape) -> Shape:
    """The shape that all of these broadcast to."""
    result: Shape = ()
    for shape in shapes:
        pairs = list(zip_longest(reversed(result), reversed(shape), fillvalue=1))
        fits = all(x == y or 1 in (x, y) for x, y in pairs)
        names = " and ".join(str(list(each)) for each in shapes)
        require(fits, op, f"shapes {names} do not broadcast")
        result = tuple(y if x == 1 else x for x, y in reversed(pairs))
    return result


def reduced(op: str, kinds: Kinds) -> Infer:
    """The axes named by `Reduce` go, or stay as ones."""

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


def resized(op: str, kinds: Kinds) -> Infer:
    """[N,H,W,C] with the height and width of `Resize`."""

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
    """How far to go in the input (height is axis 0) for one step in the output."""
    out = attributes.size[axis]
    if attributes.align_corners and out > 1:
        return np.float32(size - 1) / np.float32(out - 1)
    return np.float32(size) / np.float32(out)


def elementwise(function: Callable[..., object]) -> Callable[..., np.ndarray]:
    """The reference of an op without attributes; rank 0 stays an array of its type."""

    def reference(attributes: object, *arrays: np.ndarray) -> np.ndarray:
        return np.asarray(function(*arrays), arrays[0].dtype)

    return reference


def unary_cases(
    *attributes: object, dtype: str = "f32", low: float = -3.0, high: float = 3.0
) -> tuple[Case, ...]:
    """Every rank once, for each of the attributes."""
    return tuple(
        Case((dtype + shape,), each, low=low, high=high)
        for each in attributes or (NONE,)
        for shape in SHAPES
    )


def broadcast_cases(
    dtype: str = "f32", low: float = -3.0, high: float = 3.0, most: int = len(PAIRS)
) -> tuple[Case, ...]:
    """Ways in which two shapes can stretch, and a constant on either side."""
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
