"""Options for reading a model, and its inputs: dynamic sizes, and shapes set by the caller."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import index
from typing import Literal

from fourfold.errors import InputError, nearest
from fourfold.formats.batch import batch_growth
from fourfold.formats.budget import check_shape
from fourfold.formats.builder import GraphBuilder
from fourfold.types import OPEN, DType, OpenInput, Shape, TensorType


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading a model.

    `shapes` sets input shapes by name. `signature` selects one of several graphs. Unsupported
    operators are refused, or with `keep_unsupported` become placeholder nodes if the format has a
    CPU engine that can run them; the same holds for operators on quantized values unless
    `quantized` allows them. With `follow_batch`, reshapes that contain a fixed batch follow the
    caller's batch; without it they are taken literally. Resource variables become states of the
    graph if every operator can be converted; `variables='cpu'` leaves them to the CPU engine.
    """

    shapes: Mapping[str, Shape] = field(default_factory=dict)
    signature: str | None = None
    keep_unsupported: bool = False
    quantized: bool = True
    follow_batch: bool = True
    variables: Literal["auto", "cpu"] = "auto"

    def refuse_signature(self, title: str) -> None:
        """Raise InputError if a signature was set, for formats that have none."""
        if self.signature is not None:
            what, why = f"no signature '{self.signature}'", f"{title} models have no signatures"
            raise InputError(what, why, "leave the signature out")


DEFAULTS = ReadOptions()


# Error for dynamic sizes other than the batch that the caller does not set.
SHAPE_NEEDED = "the shape of input '{}' is needed"


def shape_needed(name: str, sizes: Shape) -> InputError:
    """Return the error for an input with open sizes other than the batch, and no shape."""
    declared = ", ".join("?" if size == OPEN else str(size) for size in sizes)
    example = ",".join(map(str, OpenInput(name, DType.F32, sizes).example_shape))
    return InputError(
        SHAPE_NEEDED.format(name),
        f"the model has dynamic sizes there: [{declared}]",
        f"pass shapes={{{name!r}: ({example})}}, or --shape {name}={example}, with your sizes",
    )


@dataclass(frozen=True)
class DeclaredInput:
    """An input as the file declares it.

    `open_sizes` has -1 for each dynamic size and is () if there are none; `type` has a size for
    every axis.
    """

    name: str
    type: TensorType
    open_sizes: Shape = ()

    @staticmethod
    def of(name: str, dtype: DType, sizes: Shape) -> DeclaredInput:
        """Declare an input of a file without default sizes; dynamic sizes are 1 until set."""
        sizes = tuple(index(size) for size in sizes)  # damaged files may contain non-integers
        shape = tuple(1 if size == OPEN else size for size in sizes)
        check_shape(shape)
        return DeclaredInput(name, TensorType(dtype, shape), open_sizes(sizes))


def open_sizes(sizes: Shape) -> Shape:
    """Return the sizes if any is dynamic, else ()."""
    return sizes if OPEN in sizes else ()


def declare_inputs(
    builder: GraphBuilder, inputs: Sequence[DeclaredInput], options: ReadOptions
) -> None:
    """Declare inputs with the caller's shapes where given, and detect a changed batch."""
    _check_names(options.shapes, [one.name for one in inputs])
    for one in inputs:
        requested = options.shapes.get(one.name)
        shape = one.type.shape if requested is None else _checked_shape(one, requested)
        builder.types[one.name] = one.type.with_shape(*shape)
    builder.reshaped = bool(options.shapes)
    if options.follow_batch:
        builder.batch_factor = _batch_factor(inputs, builder.types)


def _check_names(shapes: Iterable[str], known: Sequence[str]) -> None:
    for name in shapes:
        if name not in known:
            raise InputError(
                f"no input '{name}'", "shapes= must have names of inputs", nearest(name, known)
            )


def _checked_shape(one: DeclaredInput, shape: Shape) -> Shape:
    """Return the caller's shape of an input, checked against the declared one."""
    own = one.type.shape
    try:
        sizes = tuple(int(size) for size in shape)
        fits = sizes == own or (len(sizes) == len(own) and min(sizes, default=1) > 0)
        check_shape(sizes)
    except (TypeError, ValueError):
        fits = False
    if not fits:
        why = f"the model has {list(own)}; the rank must be equal and sizes must be positive"
        raise InputError(f"shape {shape} does not fit input '{one.name}'", why, "change the shape")
    return sizes


def _batch_factor(inputs: Iterable[DeclaredInput], types: Mapping[str, TensorType]) -> int:
    """Return the factor by which the caller changed the batch; 1 if other sizes changed, too.

    Sizes that the file declares as dynamic are not followed: the file handles them itself.
    """
    factors = set()
    for one in inputs:
        own, now = one.type.shape, types[one.name].shape
        if own != now:
            factors.add(batch_growth(own, now))
            factors.update([1] if one.open_sizes else [])
    return factors.pop() if len(factors) == 1 else 1
