"""What a tensor record means: its name, its type, and which of its sizes are open."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.formats.budget import check_shape
from fourfold.formats.inputs import OPEN, DeclaredInput, open_sizes
from fourfold.formats.names import unique
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


def declared_input(name: str, tensor: TensorRecord) -> DeclaredInput:
    """A tensor as an input of the model; TFLite has a size for those that it leaves open, too."""
    return DeclaredInput(name, declared(tensor), sizes_left_open(tensor))


def sizes_left_open(tensor: TensorRecord) -> Shape:
    """The shape with -1 for each size that the file leaves open; () where it leaves none. Only this
    is taken from a signature: its other sizes are those of the shape, or make no sense.
    """
    signature = tensor.signature or ()
    if len(signature) != len(tensor.shape):
        return ()
    sizes = zip(signature, tensor.shape, strict=True)
    return open_sizes(tuple(OPEN if wanted == OPEN else own for wanted, own in sizes))


def no_arrays(tensor: TensorRecord) -> str:
    kind = f"type {tensor.type_code}" if tensor.dtype is None else tensor.dtype.value
    return f"'{tensor.name}' holds {kind} values, which are not supported"


def has_arrays(tensor: TensorRecord) -> bool:
    """Whether its values can be arrays here; numbers of four bits are unpacked to bytes."""
    return tensor.dtype is not None and (tensor.dtype.has_numpy or tensor.dtype is DType.I4)
