"""The inputs of a model: which sizes the file leaves open, and which shapes the caller gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import index

from fourfold.errors import InputError, nearest
from fourfold.formats.batch import batch_growth
from fourfold.formats.budget import check_shape
from fourfold.formats.builder import GraphBuilder
from fourfold.formats.options import ReadOptions
from fourfold.types import DType, Shape, TensorType

OPEN = -1  # stands for a size that the file leaves open
# What readers say where sizes are open that are no batch, and the caller gives none.
SHAPE_NEEDED = "the shape of input '{}' is needed"


@dataclass(frozen=True)
class DeclaredInput:
    """An input as the file has it. `open_sizes` has -1 for each size that is left open, and is ()
    where none is; the type has a size for every axis.
    """

    name: str
    type: TensorType
    open_sizes: Shape = ()

    @staticmethod
    def of(name: str, dtype: DType, sizes: Shape) -> DeclaredInput:
        """For files that have no size of their own where they leave one open: it is 1 then, until
        a caller says more.
        """
        sizes = tuple(index(size) for size in sizes)  # a file may have anything there
        shape = tuple(1 if size == OPEN else size for size in sizes)
        check_shape(shape)
        return DeclaredInput(name, TensorType(dtype, shape), open_sizes(sizes))


def open_sizes(sizes: Shape) -> Shape:
    """The sizes if any of them is open, else ()."""
    return sizes if OPEN in sizes else ()


def declare_inputs(
    builder: GraphBuilder, inputs: Sequence[DeclaredInput], options: ReadOptions
) -> None:
    """Gives the inputs the caller's shapes where there are some, and notes a changed batch."""
    _check_names(options.shapes, [one.name for one in inputs])
    for one in inputs:
        wanted = options.shapes.get(one.name)
        shape = one.type.shape if wanted is None else _given_shape(one, wanted)
        builder.types[one.name] = one.type.with_shape(*shape)
    builder.reshaped = bool(options.shapes)
    if options.follow_batch:
        builder.batch_factor = _batch_factor(inputs, builder.types)


def _check_names(shapes: Iterable[str], known: Sequence[str]) -> None:
    for name in shapes:
        if name not in known:
            raise InputError(f"no input '{name}'", "shapes= names inputs", nearest(name, known))


def _given_shape(one: DeclaredInput, shape: Shape) -> Shape:
    """The shape that a caller gives to an input, if it is one that the input could have."""
    own = one.type.shape
    try:
        given = tuple(int(size) for size in shape)
        fits = given == own or (len(given) == len(own) and min(given, default=1) > 0)
        check_shape(given)
    except (TypeError, ValueError):
        fits = False
    if not fits:
        why = f"the model has {list(own)}; the rank must stay and sizes must be possible"
        raise InputError(f"shape {shape} does not fit input '{one.name}'", why, "change the shape")
    return given


def _batch_factor(inputs: Iterable[DeclaredInput], types: Mapping[str, TensorType]) -> int:
    """By how much the caller has changed the batch; 1 where he has not, or not that alone.

    Where the file leaves sizes open itself, it is taken at its word.
    """
    factors = set()
    for one in inputs:
        own, now = one.type.shape, types[one.name].shape
        if own != now:
            factors.add(batch_growth(own, now))
            factors.update([1] if one.open_sizes else [])
    return factors.pop() if len(factors) == 1 else 1
