"""Named dynamic sizes: which of them the caller's shapes determine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fourfold.errors import InputError
from fourfold.formats.budget import check_shape
from fourfold.formats.inputs import SHAPE_NEEDED, DeclaredInput, open_sizes, shape_needed
from fourfold.formats.onnx.file import Size, ValueRecord
from fourfold.formats.onnx.schema import graph_dtype, port_dtype
from fourfold.types import OPEN, DType, OpenInput, Shape, TensorType

NamedSizes = Mapping[str, int]


def settle_names(inputs: Sequence[ValueRecord], shapes: Mapping[str, Shape]) -> NamedSizes:
    """Return the named sizes that follow from the caller's shapes; an unknown batch is 1."""
    settled: dict[str, int] = {}
    for value in inputs:
        shape = shapes.get(value.name, ())
        if len(shape) != len(value.sizes or ()):
            continue  # a wrong rank is reported where shapes are checked
        for own, size in zip(value.sizes or (), shape, strict=True):
            if isinstance(own, str) and own and settled.setdefault(own, int(size)) != size:
                raise _contradiction(own, settled[own], int(size))
    for name in _batches(inputs):
        settled.setdefault(name, 1)
    return settled


def _batches(inputs: Sequence[ValueRecord]) -> Iterator[str]:
    """Yield the names of batch sizes: those of a first axis, or with 'batch' in the name."""
    for value in inputs:
        for axis, size in enumerate(value.sizes or ()):
            if isinstance(size, str) and size and (axis == 0 or "batch" in size.lower()):
                yield size


def declare_input(value: ValueRecord, named: NamedSizes, requested: Shape | None) -> DeclaredInput:
    """Declare an input with its known sizes.

    Raises InputError if a size other than the batch is unknown.
    """
    sizes = _own_sizes(value, requested)
    dtype = DType.VARIANT if value.element is None else port_dtype(value.element)
    shape = []
    for axis, size in enumerate(sizes):
        resolved = size if isinstance(size, int) else named.get(size)
        if resolved is None and axis == 0:
            resolved = 1
        if resolved is None and requested is None:
            raise shape_needed(value.name, _declared_sizes(value))
        shape.append(1 if resolved is None else resolved)
    check_shape(tuple(shape))
    left_open = tuple(size if isinstance(size, int) else OPEN for size in sizes)
    return DeclaredInput(value.name, TensorType(dtype, tuple(shape)), open_sizes(left_open))


def _own_sizes(value: ValueRecord, requested: Shape | None) -> tuple[Size, ...]:
    """Return the sizes in the file; if it has none, the rank of the caller's shape."""
    if value.sizes is not None:
        return value.sizes
    if requested is None and value.element is not None:
        what = SHAPE_NEEDED.format(value.name)
        why = "the model does not declare its rank"
        raise InputError(what, why, f"pass shapes={{{value.name!r}: (...)}}")
    return ("",) * len(requested or ())


def _declared_sizes(value: ValueRecord) -> Shape:
    return tuple(size if isinstance(size, int) else OPEN for size in value.sizes or ())


def open_inputs(inputs: Sequence[ValueRecord]) -> tuple[OpenInput, ...]:
    """Return the inputs as the file declares them; () if one does not declare type or rank."""
    if any(value.element is None or value.sizes is None for value in inputs):
        return ()
    return tuple(
        OpenInput(value.name, port_dtype(value.element), _declared_sizes(value))
        for value in inputs
        if value.element is not None
    )


def _contradiction(name: str, one: int, other: int) -> InputError:
    why = f"the model uses '{name}' for both"
    return InputError(f"the shapes set one size to {one} and to {other}", why, "make them equal")


def declared_type(value: ValueRecord, named: NamedSizes) -> TensorType | None:
    """Return the type of a value in the file; None if a size is unknown."""
    if value.element is None or value.sizes is None:
        return None
    shape = tuple(size if isinstance(size, int) else named.get(size, OPEN) for size in value.sizes)
    if OPEN in shape:
        return None
    check_shape(shape)
    return TensorType(graph_dtype(value.element), shape)
