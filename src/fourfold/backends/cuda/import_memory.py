"""Import CUDA memory of other libraries: DLPack, `__cuda_array_interface__`, an address."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from fourfold.backends.cuda import binding as cu
from fourfold.backends.cuda.binding import pointers
from fourfold.backends.cuda.devices import context_of
from fourfold.backends.cuda.failures import ActiveContext
from fourfold.backends.cuda.memory import CudaMemory
from fourfold.backends.dlpack import device_tensor, has_contiguous_strides
from fourfold.backends.dlpack_devices import CUDA, MANAGED, PINNED, device_kind, is_jax_array
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.plan import BUFFER_ALIGNMENT, padded

_INTERFACE = "__cuda_array_interface__"
_NEEDED = ("shape", "typestr", "data")
_VERSIONS = (2, 3)
_FIX_PRODUCER = "pass it through DLPack, or update its library"


class CudaArray(NamedTuple):
    """A contiguous array, and the stream that produces its elements; None if they are ready."""

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype
    read_only: bool
    stream: int | None


def read_interface(given: Any) -> CudaArray | None:
    """Read the interface of an array; None if it has none.

    Raises an InputError if kernels cannot use the array, or the interface is malformed.
    """
    interface = _interface(given)
    if interface is None:
        return None
    if interface.get("version") not in _VERSIONS:
        raise InputError(
            f"{_INTERFACE} has version {interface.get('version')}",
            "versions 2 and 3 are supported",
            _FIX_PRODUCER,
        )
    absent = [name for name in _NEEDED if name not in interface]
    if absent:
        what, why = f"{_INTERFACE} is incomplete", f"it has no {' and no '.join(absent)}"
        raise InputError(what, why, _FIX_PRODUCER)
    if interface.get("mask") is not None:
        what, why = "the array has a mask", "a model reads all elements"
        raise InputError(what, why, "fill the masked elements first")
    try:
        return _interface_array(interface)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        what = f"{_INTERFACE} is malformed"
        raise InputError(what, str(error), _FIX_PRODUCER) from error


def _interface_array(interface: Mapping[str, Any]) -> CudaArray:
    """Return the array; raises a TypeError or ValueError if an entry is malformed."""
    shape, dtype = tuple(map(int, interface["shape"])), _numpy_dtype(interface["typestr"])
    _check_strides(shape, interface.get("strides"), dtype)
    address, read_only = interface["data"]
    return CudaArray(
        int(address or 0), shape, dtype, bool(read_only), _stream(interface.get("stream"))
    )


def _interface(given: Any) -> Mapping[str, Any] | None:
    """Return the interface; arrays on the CPU may have the attribute and raise when it is read."""
    try:
        interface = getattr(given, _INTERFACE, None)
    except (BufferError, RuntimeError, TypeError, ValueError):
        return None
    return interface if isinstance(interface, Mapping) else None


def _numpy_dtype(typestr: str) -> np.dtype:
    try:
        return np.dtype(typestr)
    except TypeError as error:
        what = f"the dtype {typestr!r} is not supported"
        fix = "convert the array to float32 first"
        raise InputError(what, "NumPy has no such dtype", fix) from error


def _check_strides(shape: Sequence[int], strides: Sequence[int] | None, dtype: np.dtype) -> None:
    """Check the strides, which count bytes; None means contiguous."""
    if strides is None:
        return
    if len(strides) != len(shape):
        what = f"{_INTERFACE} has {len(strides)} strides for {len(shape)} axes"
        raise InputError(what, "there must be one per axis", _FIX_PRODUCER)
    if not has_contiguous_strides(shape, strides, dtype.itemsize):
        what, why = "the array is not contiguous", f"its strides are {tuple(strides)} bytes"
        raise InputError(what, why, "pass a contiguous copy of it")


def _stream(stream: Any) -> int | None:
    if stream is None:
        return None
    if int(stream) == 0:
        what, why = (
            f"{_INTERFACE} names stream 0",
            "it is ambiguous: the default stream of all threads or of one",
        )
        raise InputError(what, why, "name stream 1 or 2 or its own, or None if it is done")
    return int(stream)


class TorchTensor(NamedTuple):
    """Properties of a tensor on a GPU, and the stream that produces its elements."""

    address: int
    ordinal: int
    shape: tuple[int, ...]
    dtype: np.dtype
    nbytes: int
    stream: int

    def is_same(self, given: Any) -> bool:
        """Return True if a tensor still has these properties, and its stream is the same."""
        return (
            given.data_ptr() == self.address
            and given.shape == self.shape
            and _torch_dtype(given.dtype) == self.dtype
            and given.is_contiguous()
            and not given.requires_grad
            and not given.is_neg()
            and _current_stream(sys.modules["torch"], self.ordinal) == self.stream
        )


def torch_tensor(given: Any) -> TorchTensor | None:
    """Return the properties of a plain contiguous tensor on a GPU.

    None for all others, which DLPack supports or rejects with a reason.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or type(given) is not getattr(torch, "Tensor", None) or not given.is_cuda:
        return None
    dtype = _torch_dtype(given.dtype)
    lazy = given.requires_grad or given.is_neg() or not given.is_contiguous()
    if dtype is None or lazy:
        return None
    ordinal = given.get_device()
    return TorchTensor(
        address=given.data_ptr(),
        ordinal=ordinal,
        shape=tuple(given.shape),
        dtype=dtype,
        nbytes=given.nbytes,
        stream=_current_stream(torch, ordinal),
    )


@cache
def _torch_dtype(given: Any) -> np.dtype | None:
    """Return the NumPy dtype of a PyTorch dtype; None if there is none."""
    try:
        return np.dtype(str(given).removeprefix("torch."))
    except TypeError:
        return None


def _current_stream(torch: Any, ordinal: int) -> int:
    """Return the current stream with the internal call that PyTorch's compilers use: creating a
    stream object takes longer.
    """
    ask = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    handle = torch.cuda.current_stream(ordinal).cuda_stream if ask is None else ask(ordinal)
    return int(handle)


def import_memory(info: DeviceInfo, given: Any) -> CudaMemory | None:
    """Return the CUDA memory of an object: a PyTorch tensor, a CuPy, JAX or Numba array, or an
    address.

    None if it has no CUDA memory.
    """
    if isinstance(given, CudaMemory):
        _check_device(info, given.device.ordinal)
        return given
    if isinstance(given, int) and not isinstance(given, bool):
        return _at(info, given, None)
    plain = torch_tensor(given)
    if plain is not None:
        return _of_torch(info, given, plain)
    if device_kind(given) in (CUDA, PINNED, MANAGED):
        return _of_tensor(info, given)
    array = read_interface(given)
    return None if array is None else _of_array(info, given, array)


def _of_tensor(info: DeviceInfo, given: Any) -> CudaMemory:
    """Import memory through DLPack. Its owner makes our stream wait for the work
    submitted so far.
    """
    kind, ordinal = given.__dlpack_device__()
    if kind == CUDA:
        _check_device(info, int(ordinal))
    with ActiveContext("importing memory", info, context_of(info)):
        tensor = device_tensor(given, None if kind == PINNED else _order(info))
    memory = _at(info, tensor.data + tensor.start, tensor, empty=not tensor.nbytes)
    memory.shape, memory.dtype = tensor.shape, tensor.dtype
    memory.size, memory.read_only = (
        max(memory.size, tensor.nbytes),
        tensor.read_only or is_jax_array(given),
    )
    return memory


def _of_torch(info: DeviceInfo, given: Any, tensor: TorchTensor) -> CudaMemory:
    """Import the memory of a plain PyTorch tensor.

    Kernels read up to the end of the aligned line that holds the last byte. If the tensor starts at
    such a line, that is always allocated, and the driver need not be asked.
    """
    _check_device(info, tensor.ordinal)
    if tensor.nbytes and tensor.address % BUFFER_ALIGNMENT == 0:
        memory = CudaMemory(info, tensor.address, padded(tensor.nbytes), given)
    else:
        memory = _at(info, tensor.address, given, empty=not tensor.nbytes)
    memory.shape, memory.dtype = tensor.shape, tensor.dtype
    producer = tensor.stream or cu.DEFAULT_STREAM
    _follow(info, producer)
    memory.is_same = tensor.is_same if producer == _order(info) else None
    return memory


def _follow(info: DeviceInfo, producer: int) -> None:
    """Make the stream of our runs wait for the work in another stream."""
    if producer != _order(info):
        with ActiveContext("importing memory", info, context_of(info)):
            cu.Stream.of(_order(info)).follow(cu.Stream.of(producer))


def _of_array(info: DeviceInfo, given: Any, array: CudaArray) -> CudaMemory:
    """Import an array with `__cuda_array_interface__`, and the stream that produces it."""
    memory = _at(info, array.address, given, empty=0 in array.shape)
    memory.shape, memory.dtype, memory.read_only = array.shape, array.dtype, array.read_only
    if array.stream is not None:
        _follow(info, array.stream)
    return memory


def _order(info: DeviceInfo) -> int:
    """Return the stream that runs with imported memory follow: the caller's, or the default one."""
    return info.shared_queue or cu.DEFAULT_STREAM


def _at(info: DeviceInfo, address: int, owner: object, empty: bool = False) -> CudaMemory:
    """Return the memory from an address to the end of its allocation."""
    if empty:
        return CudaMemory(info, address, 0, owner)
    with ActiveContext("importing memory", info, context_of(info)):
        pointer = pointers.pointer_info(address)
    if not pointer.kind:
        what, why = f"{address:#x} is not CUDA memory", "the driver does not know this address"
        raise InputError(what, why, "pass a tensor on the GPU, or its address: x.data_ptr()")
    memory = CudaMemory(info, address, pointer.remaining, owner)
    memory.is_pinned = pointer.kind == pointers.HOST
    if not memory.is_pinned:
        _check_device(info, pointer.ordinal)
    return memory


def _check_device(info: DeviceInfo, ordinal: int) -> None:
    if ordinal != info.ordinal:
        what = f"the memory is on cuda:{ordinal}, the model on cuda:{info.ordinal}"
        why = "a GPU can only access its own memory"
        fix = f"pass x.to('cuda:{info.ordinal}'), or open the session on device='cuda:{ordinal}'"
        raise InputError(what, why, fix)
