"""Import CUDA memory of other libraries: DLPack, `__cuda_array_interface__`, an address."""

from __future__ import annotations

from typing import Any

from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.plan import BUFFER_ALIGNMENT, padded
from fourfold.players.cuda import binding as cu
from fourfold.players.cuda.array_interface import CudaArray, read_interface
from fourfold.players.cuda.binding import pointers
from fourfold.players.cuda.devices import context_of
from fourfold.players.cuda.failures import Working
from fourfold.players.cuda.memory import CudaMemory
from fourfold.players.cuda.torch_tensors import TorchTensor, torch_tensor
from fourfold.players.dlpack import device_tensor
from fourfold.players.dlpack_devices import CUDA, MANAGED, PINNED, device_kind, is_of_jax


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
    with Working("importing memory", info, context_of(info)):
        tensor = device_tensor(given, None if kind == PINNED else _order(info))
    memory = _at(info, tensor.data + tensor.start, tensor, empty=not tensor.nbytes)
    memory.shape, memory.dtype = tensor.shape, tensor.dtype
    memory.size, memory.read_only = (
        max(memory.size, tensor.nbytes),
        tensor.read_only or is_of_jax(given),
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
        with Working("importing memory", info, context_of(info)):
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
    with Working("importing memory", info, context_of(info)):
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
