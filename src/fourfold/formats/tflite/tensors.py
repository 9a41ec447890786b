"""Interprets tensor records: names, types and dynamic sizes."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.formats.budget import check_shape
from fourfold.formats.inputs import OPEN, DeclaredInput, open_sizes
from fourfold.formats.names import unique
from fourfold.formats.tflite.records import SubgraphRecord, TensorRecord
from fourfold.types import DType, Shape, TensorType


def tensor_names(record: SubgraphRecord) -> tuple[str, ...]:
    """Return the tensors' names, made unique; unnamed ones get their number."""
    return unique(tensor.name or f"tensor_{i}" for i, tensor in enumerate(record.tensors))


def declared(tensor: TensorRecord) -> TensorType:
    """Return the type of a tensor in the file; 4-bit numbers are unpacked, so they are i8."""
    check_shape(tensor.shape)
    dtype = DType.I8 if tensor.dtype is DType.I4 else tensor.dtype
    return TensorType(DType.VARIANT if dtype is None else dtype, tensor.shape)


def declared_types(record: SubgraphRecord, indices: Sequence[int]) -> tuple[TensorType, ...]:
    """Return the types of some tensors in the file; an omitted one counts as a scalar."""
    absent, tensors = TensorType(DType.VARIANT, ()), record.tensors
    return tuple(absent if index == -1 else declared(tensors[index]) for index in indices)


def declared_input(name: str, tensor: TensorRecord) -> DeclaredInput:
    """Return a tensor as an input; TFLite stores a default size for dynamic sizes."""
    return DeclaredInput(name, declared(tensor), sizes_left_open(tensor))


def sizes_left_open(tensor: TensorRecord) -> Shape:
    """Return the shape with -1 for each dynamic size; () if there are none.

    Other sizes of the shape signature are ignored: they equal the shape or are invalid.
    """
    signature = tensor.signature or ()
    if len(signature) != len(tensor.shape):
        return ()
    sizes = zip(signature, tensor.shape, strict=True)
    return open_sizes(tuple(OPEN if declared_size == OPEN else own for declared_size, own in sizes))


def no_arrays(tensor: TensorRecord) -> str:
    kind = f"type {tensor.type_code}" if tensor.dtype is None else tensor.dtype.value
    return f"'{tensor.name}' holds {kind} values, which are not supported"


def has_arrays(tensor: TensorRecord) -> bool:
    """Return True if its values can be arrays; 4-bit numbers are unpacked to bytes."""
    return tensor.dtype is not None and (tensor.dtype.has_numpy or tensor.dtype is DType.I4)
