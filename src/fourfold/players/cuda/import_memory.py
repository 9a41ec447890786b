"""Memory of CUDA as other libraries have it: DLPack, `__cuda_array_interface__`, an address."""

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
    """What a caller has of CUDA's memory: a tensor of PyTorch, an array of CuPy, JAX or Numba, an
    address as a number. None where it is nothing of the kind.
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
    """Memory that DLPack tells of. Its owner lets the stream that runs follow wait for whatever it
    has put in so far.
    """
    kind, ordinal = given.__dlpack_device__()
    if kind == CUDA:
        _check_device(info, int(ordinal))
    with Working("importing memory", info, context_of(info)):
        tensor = device_tensor(given, None if kind == PINNED else _order(info))
    found = _at(info, tensor.data + tensor.start, tensor, empty=not tensor.nbytes)
    found.shape, found.dtype = tensor.shape, tensor.dtype
    found.size, found.read_only = (
        max(found.size, tensor.nbytes),
        tensor.read_only or is_of_jax(given),
    )
    return found


def _of_torch(info: DeviceInfo, given: Any, tensor: TorchTensor) -> CudaMemory:
    """Memory of a plain tensor of PyTorch's. Kernels read up to the end of the line that its last
    byte is in; where a line begins with it, all of that is there, and the driver need not be asked.
    """
    _check_device(info, tensor.ordinal)
    if tensor.nbytes and tensor.address % BUFFER_ALIGNMENT == 0:
        found = CudaMemory(info, tensor.address, padded(tensor.nbytes), given)
    else:
        found = _at(info, tensor.address, given, empty=not tensor.nbytes)
    found.shape, found.dtype = tensor.shape, tensor.dtype
    producer = tensor.stream or cu.DEFAULT_STREAM
    _follow(info, producer)
    found.is_same = tensor.is_same if producer == _order(info) else None
    return found


def _follow(info: DeviceInfo, producer: int) -> None:
    """Let the stream that runs follow wait for what was put into another."""
    if producer != _order(info):
        with Working("importing memory", info, context_of(info)):
            cu.Stream.of(_order(info)).follow(cu.Stream.of(producer))


def _of_array(info: DeviceInfo, given: Any, array: CudaArray) -> CudaMemory:
    """Memory that an array tells of by itself, with the stream that it is made in."""
    found = _at(info, array.address, given, empty=0 in array.shape)
    found.shape, found.dtype, found.read_only = array.shape, array.dtype, array.read_only
    if array.stream is not None:
        _follow(info, array.stream)
    return found


def _order(info: DeviceInfo) -> int:
    """The stream that runs with memory of others follow: the caller's, or the default one."""
    return info.shared_queue or cu.DEFAULT_STREAM


def _at(info: DeviceInfo, address: int, owner: object, empty: bool = False) -> CudaMemory:
    """Memory from an address on, as much as there is."""
    if empty:
        return CudaMemory(info, address, 0, owner)
    with Working("importing memory", info, context_of(info)):
        known = pointers.pointer_info(address)
    if not known.kind:
        what, why = f"{address:#x} is no memory of CUDA", "its driver does not know that address"
        raise InputError(what, why, "pass a tensor on the GPU, or its address: x.data_ptr()")
    found = CudaMemory(info, address, known.room, owner)
    found.is_pinned = known.kind == pointers.HOST
    if not found.is_pinned:
        _check_device(info, known.ordinal)
    return found


def _check_device(info: DeviceInfo, ordinal: int) -> None:
    if ordinal != info.ordinal:
        what = f"the memory is on cuda:{ordinal}, the model on cuda:{info.ordinal}"
        why = "a GPU reaches its own memory only"
        fix = f"pass x.to('cuda:{info.ordinal}'), or open the session on device='cuda:{ordinal}'"
        raise InputError(what, why, fix)
