"""Device memory that a caller passes for inputs and outputs: detected, checked and allocated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from fourfold.backends import DeviceMemory, backend_of, with_known_facts
from fourfold.backends.cpu import CPU
from fourfold.backends.dlpack_devices import is_jax_array
from fourfold.backends.host_memory import HostMemory
from fourfold.backends.protocol import overlap
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.runtime.device_array import DeviceArray
from fourfold.runtime.inputs import LISTS, ON_HOST, Inputs
from fourfold.runtime.tensor_info import TensorInfo


def take_memory(device: DeviceInfo, info: TensorInfo, value: Any) -> DeviceMemory | None:
    """Return the device memory that a caller passed for an input or output; None if the object is
    not device memory. Raises an InputError if it does not fit.
    """
    if isinstance(value, DeviceArray):
        _check_type(info, value.shape, value.dtype)
        if value.device is device:  # fast path, taken in every run
            return value.memory
        _check_device(device, value)
        if device == CPU:
            return value.memory
        value = value.memory
    on_cpu = device.is_cpu and device == CPU
    memory = None if on_cpu else backend_of(device).import_memory(device, value)
    if memory is None:
        return None
    if memory.shape is not None and memory.dtype is not None:
        _check_type(info, memory.shape, memory.dtype)
    needed = _bytes(info)
    if memory.size < needed:
        what = f"the memory for {info.name!r} has {memory.size} bytes, not {needed}"
        why = f"the model needs {info.dtype}{list(info.shape)}"
        raise InputError(what, why, f"allocate a buffer of {needed} bytes or more")
    return memory


def _bytes(info: TensorInfo) -> int:
    return info.dtype.itemsize * prod(info.shape)


def _check_device(device: DeviceInfo, array: DeviceArray) -> None:
    if array.device is not device and array.device != device:
        what = f"the array is on {array.device}, the model on {device}"
        raise InputError(what, "a device can only access its own memory", "pass array.numpy()")


def _check_type(info: TensorInfo, shape: tuple[int, ...], dtype: Any) -> None:
    if tuple(shape) != info.shape or dtype != info.dtype:
        what = f"the memory for {info.name!r} is {dtype}{list(shape)}"
        why = f"the model needs {info.dtype}{list(info.shape)}"
        raise InputError(what, why, "convert it first: device memory is used as it is")


def _check_writable(info: TensorInfo, memory: DeviceMemory, value: Any) -> None:
    if not memory.read_only:
        return
    what = f"the memory for {info.name!r} cannot be written to"
    if is_jax_array(value):
        fix = "run with keep_on_device=True, and use jax.dlpack.from_dlpack(results[name])"
        raise InputError(what, "JAX arrays are immutable", fix)
    fix = "pass writable memory, or keep_on_device=True"
    raise InputError(what, "its library marks it as read-only", fix)


class MemoryBinding(NamedTuple):
    """Memory bound to an input or output: the caller's object, and the reference that keeps the
    memory alive while it is bound.
    """

    given: object
    held: DeviceArray | DeviceMemory

    def array(self, device: DeviceInfo, info: TensorInfo) -> DeviceArray:
        """Return the memory as an array. Raises an InputError if it no longer fits."""
        memory = take_memory(device, info, self.held)
        assert memory is not None
        if isinstance(self.held, DeviceArray):
            return self.held
        return DeviceArray(memory, info.shape, info.dtype, device)


def bind_memory(
    device: DeviceInfo, info: TensorInfo, value: object, is_output: bool
) -> MemoryBinding:
    """Hold memory for an input or output. Raises an InputError if it is not memory of the device,
    or does not fit.
    """
    memory = take_memory(device, info, value)
    if memory is not None:
        if is_output:
            _check_writable(info, memory, value)
        return MemoryBinding(value, value if isinstance(value, DeviceArray) else memory)
    what = f"{info.name!r} cannot be bound to a {type(value).__name__}"
    why = f"it is not memory that kernels on {device.name} can use"
    fix = "pass it as an array, or bind a DeviceArray, a buffer or a tensor of the device"
    raise InputError(what, why, fix)


def fresh_array(device: DeviceInfo, info: TensorInfo) -> DeviceArray:
    """Return an uninitialized array in device memory."""
    size = _bytes(info)
    if device == CPU:
        return DeviceArray(HostMemory(size), info.shape, info.dtype, device)
    memory = backend_of(device).make_memory(with_known_facts(device), size)
    return DeviceArray(memory, info.shape, info.dtype, device)


def with_bound(
    infos: Sequence[TensorInfo], inputs: Inputs, bound: Mapping[str, MemoryBinding]
) -> Mapping[str, Any]:
    """Return the inputs by name, with the bound ones added. A list, or one array, has only the
    inputs that are not bound.
    """
    bound_memory = {info.name: bound[info.name].held for info in infos if info.name in bound}
    if inputs is None:
        return bound_memory
    if isinstance(inputs, Mapping):
        return {**bound_memory, **inputs}
    unbound = [info.name for info in infos if info.name not in bound_memory]
    values = inputs if isinstance(inputs, LISTS) and len(unbound) != 1 else [inputs]
    if len(values) != len(unbound):
        what = f"{len(values)} arrays were passed for {len(unbound)} inputs"
        why = f"{list(bound_memory)} are bound, {unbound} are not"
        raise InputError(what, why, "pass a dict by name")
    return {**bound_memory, **dict(zip(unbound, values, strict=True))}


def refuse_in_flight(arrays: Sequence[Any], bound: Mapping[str, Any]) -> None:
    """Raise an InputError if device memory was passed for a run in flight, which has its own."""
    if bound or not all(isinstance(one, np.ndarray) for one in arrays):
        what = "device memory was passed for a run in flight"
        why = "each run in flight has its own memory, and arrays are copied into it"
        raise InputError(what, why, "use run(), which does not copy, or pass NumPy arrays")


class OutputMemory:
    """Selects the outputs of one run that stay in device memory: those that are bound, those for
    which the caller passed memory, and, with `kept`, all others.
    """

    def __init__(self, device: DeviceInfo, bound: Mapping[str, MemoryBinding], kept: bool) -> None:
        self._device, self._bound, self._kept = device, bound, kept
        self._taken: list[tuple[TensorInfo, DeviceMemory]] = []
        self.held: dict[str, Any] = {}  # the objects that the caller gets for these outputs

    def take(self, info: TensorInfo, value: Any) -> DeviceMemory | None:
        """Return the memory for one output; None if it goes to the host. `value` is the caller's
        object for it, if any.
        """
        binding = self._bound.get(info.name) if value is None else None
        if binding is not None:
            array = binding.array(self._device, info)
            self.held[info.name] = array if isinstance(binding.given, int) else binding.given
            return self._apart(info, array.memory)
        if value is None and self._kept:
            fresh = fresh_array(self._device, info)
            self.held[info.name] = fresh
            return fresh.memory
        if value is None or isinstance(value, ON_HOST):
            return None
        memory = take_memory(self._device, info, value)
        if memory is None:
            return None
        _check_writable(info, memory, value)
        self.held[info.name] = value
        return self._apart(info, memory)

    def taken(self, names: Sequence[str]) -> list[DeviceMemory] | None:
        """Return the caller's memory for all of these outputs; None if some have none."""
        memories = [memory for _, memory in self._taken]
        return memories if [info.name for info, _ in self._taken] == [*names] else None

    def _apart(self, info: TensorInfo, memory: DeviceMemory) -> DeviceMemory:
        """Record the caller's memory for an output. Raises an InputError if it overlaps another
        output.
        """
        for other, taken in self._taken:
            if overlap(taken, _bytes(other), memory, _bytes(info)):
                what = f"outputs {other.name!r} and {info.name!r} share device memory"
                raise InputError(what, "each result needs its own memory", "pass two buffers")
        self._taken.append((info, memory))
        return memory
