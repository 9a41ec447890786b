"""What a tensor record means: its name, its type, and the shape that a caller may give it."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.errors import InputError
from fourfold.formats.model import unique
from fourfold.formats.tflite.constants import check_shape
from fourfold.formats.tflite.records import SubgraphRecord, TensorRecord
from fourfold.types import DType, Shape, TensorType


def tensor_names(record: SubgraphRecord) -> tuple[str, ...]:
    """The tensors' own names, made unique; those without one get their number."""
    return unique(tensor.name or f"tensor_{i}" for i, tensor in enumerate(record.tensors))


def declared(tensor: TensorRecord) -> TensorType:
    """The file's own type of a tensor; numbers of four bits are unpacked, so they count as i8."""
    check_shape(tensor.shape)
    dtype = DType.I8 if tensor.dtype is DType.I4 else tensor.dtype
    return TensorType(DType.VARIANT if dtype is None else dtype, tensor.shape)


def declared_types(record: SubgraphRecord, indices: Sequence[int]) -> tuple[TensorType, ...]:
    """The file's own types of some tensors; one that is not there counts as a scalar."""
    absent, tensors = TensorType(DType.VARIANT, ()), record.tensors
    return tuple(absent if index == -1 else declared(tensors[index]) for index in indices)


def given_shape(name: str, shape: Shape, tensor: TensorRecord) -> Shape:
    """The shape that a caller gives to an input, if it is one that the input could have."""
    try:
        given = tuple(int(size) for size in shape)
        fits = len(given) == len(tensor.shape) and min(given, default=1) > 0
        check_shape(given)
    except (TypeError, ValueError):
        fits = False
    if not fits:
        why = f"the model has {list(tensor.shape)}; the rank must stay and sizes must be possible"
        raise InputError(f"shape {shape} does not fit input '{name}'", why, "change the shape")
    return given


def no_arrays(tensor: TensorRecord) -> str:
    kind = f"type {tensor.type_code}" if tensor.dtype is None else tensor.dtype.value
    return f"'{tensor.name}' holds {kind} values, which are not supported"


def has_arrays(tensor: TensorRecord) -> bool:
    """Whether its values can be arrays here; numbers of four bits are unpacked to bytes."""
    return tensor.dtype is not None and (tensor.dtype.has_numpy or tensor.dtype is DType.I4)
