"""Sizes that a file leaves open by giving them names: which ones a caller's shapes settle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fourfold.errors import InputError
from fourfold.formats.budget import check_shape
from fourfold.formats.inputs import OPEN, SHAPE_NEEDED, DeclaredInput, open_sizes
from fourfold.formats.onnx.records import Size, ValueRecord
from fourfold.formats.onnx.schema import graph_dtype, port_dtype
from fourfold.types import DType, Shape, TensorType

NamedSizes = Mapping[str, int]
EXAMPLE = 224


def settle_names(inputs: Sequence[ValueRecord], shapes: Mapping[str, Shape]) -> NamedSizes:
    """The named sizes that follow from the caller's shapes; a batch that nobody gives is 1."""
    found: dict[str, int] = {}
    for value in inputs:
        given = shapes.get(value.name, ())
        if len(given) != len(value.sizes or ()):
            continue  # the wrong rank has its own message where shapes are taken
        for own, size in zip(value.sizes or (), given, strict=True):
            if isinstance(own, str) and own and found.setdefault(own, int(size)) != size:
                raise _contradiction(own, found[own], int(size))
    for name in _batches(inputs):
        found.setdefault(name, 1)
    return found


def _batches(inputs: Sequence[ValueRecord]) -> Iterator[str]:
    """The names of sizes that are a batch: those that come first somewhere, or are called so."""
    for value in inputs:
        for axis, size in enumerate(value.sizes or ()):
            if isinstance(size, str) and size and (axis == 0 or "batch" in size.lower()):
                yield size


def declare_input(value: ValueRecord, named: NamedSizes, given: Shape | None) -> DeclaredInput:
    """An input in the sizes that are known; InputError where one that is no batch is not."""
    sizes = _own_sizes(value, given)
    dtype = DType.VARIANT if value.element is None else port_dtype(value.element)
    shape = []
    for axis, size in enumerate(sizes):
        known = size if isinstance(size, int) else named.get(size)
        if known is None and axis == 0:
            known = 1
        if known is None and given is None:
            raise _unsettled(value, named)
        shape.append(1 if known is None else known)
    check_shape(tuple(shape))
    left_open = tuple(size if isinstance(size, int) else OPEN for size in sizes)
    return DeclaredInput(value.name, TensorType(dtype, tuple(shape)), open_sizes(left_open))


def _own_sizes(value: ValueRecord, given: Shape | None) -> tuple[Size, ...]:
    """What the file says; where it says nothing, the caller's shape counts."""
    if value.sizes is not None:
        return value.sizes
    if given is None and value.element is not None:
        what = SHAPE_NEEDED.format(value.name)
        why = "the model does not even say how many axes it has"
        raise InputError(what, why, f"pass shapes={{{value.name!r}: (...)}}")
    return ("",) * len(given or ())


def _unsettled(value: ValueRecord, named: NamedSizes) -> InputError:
    sizes = value.sizes or ()
    shown = ", ".join(str(size) if size != "" else "?" for size in sizes)
    filled = [
        size if isinstance(size, int) else named.get(size, 1 if axis == 0 else EXAMPLE)
        for axis, size in enumerate(sizes)
    ]
    what = SHAPE_NEEDED.format(value.name)
    why = f"the model leaves sizes of it open: [{shown}]"
    text = ",".join(map(str, filled))
    fix = (
        f"pass shapes={{{value.name!r}: ({text})}}, or --shape {value.name}={text}, with your sizes"
    )
    return InputError(what, why, fix)


def _contradiction(name: str, one: int, other: int) -> InputError:
    why = f"the model has '{name}' for both"
    return InputError(f"shapes have {one} and {other} for one size", why, "make them equal")


def declared_type(value: ValueRecord, named: NamedSizes) -> TensorType | None:
    """The file's type of a value inside of a graph; None where a size is not known."""
    if value.element is None or value.sizes is None:
        return None
    shape = tuple(size if isinstance(size, int) else named.get(size, OPEN) for size in value.sizes)
    if OPEN in shape:
        return None
    check_shape(shape)
    return TensorType(graph_dtype(value.element), shape)
