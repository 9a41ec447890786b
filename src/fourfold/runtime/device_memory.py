"""Memory of the device among what a caller passes: looked at, checked, and made."""

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


def take_memory(device: DeviceInfo, info: TensorInfo, given: Any) -> DeviceMemory | None:
    """The device's memory that a caller means for an input or output; None where what is passed is
    nothing of the kind. An InputError where it does not fit.
    """
    if isinstance(given, DeviceArray):
        _check_type(info, given.shape, given.dtype)
        if given.device is device:  # by the shortest way: it comes in every run
            return given.memory
        _check_device(device, given)
        if device == CPU:
            return given.memory
        given = given.memory
    on_cpu = device.is_cpu and device == CPU
    found = None if on_cpu else backend_of(device).import_memory(device, given)
    if found is None:
        return None
    if found.shape is not None and found.dtype is not None:
        _check_type(info, found.shape, found.dtype)
    needed = _bytes(info)
    if found.size < needed:
        what = f"the memory for {info.name!r} has {found.size} bytes, not {needed}"
        why = f"the model has {info.dtype}{list(info.shape)} there"
        raise InputError(what, why, f"make a buffer of {needed} bytes or more")
    return found


def _bytes(info: TensorInfo) -> int:
    return info.dtype.itemsize * prod(info.shape)


def _check_device(device: DeviceInfo, given: DeviceArray) -> None:
    if given.device is not device and given.device != device:
        what = f"the array is on {given.device}, the model on {device}"
        raise InputError(what, "a device reaches its own memory only", "pass array.numpy()")


def _check_type(info: TensorInfo, shape: tuple[int, ...], dtype: Any) -> None:
    if tuple(shape) != info.shape or dtype != info.dtype:
        what = f"the memory for {info.name!r} is {dtype}{list(shape)}"
        why = f"the model has {info.dtype}{list(info.shape)} there"
        raise InputError(what, why, "memory of a device is taken as it is: make it so first")


def _check_writable(info: TensorInfo, memory: DeviceMemory, given: Any) -> None:
    if not memory.read_only:
        return
    what = f"the memory for {info.name!r} cannot be written to"
    if is_jax_array(given):
        fix = "run with keep_on_device=True, and take jax.dlpack.from_dlpack(results[name])"
        raise InputError(what, "arrays of JAX never change", fix)
    fix = "pass memory of your own, or keep_on_device=True"
    raise InputError(what, "its owner says so", fix)


class MemoryBinding(NamedTuple):
    """Memory that is bound to an input or output: as the caller has it, and as it is held, so that
    it is there for as long as it is bound.
    """

    given: object
    held: DeviceArray | DeviceMemory

    def array(self, device: DeviceInfo, info: TensorInfo) -> DeviceArray:
        """It as the array that it is bound to; an InputError where it does not fit any more."""
        memory = take_memory(device, info, self.held)
        assert memory is not None
        if isinstance(self.held, DeviceArray):
            return self.held
        return DeviceArray(memory, info.shape, info.dtype, device)


def bind_memory(
    device: DeviceInfo, info: TensorInfo, given: object, is_output: bool
) -> MemoryBinding:
    """Hold memory for an input or output; an InputError where it is no memory of the device, or
    does not fit.
    """
    memory = take_memory(device, info, given)
    if memory is not None:
        if is_output:
            _check_writable(info, memory, given)
        return MemoryBinding(given, given if isinstance(given, DeviceArray) else memory)
    what = f"{info.name!r} cannot be bound to a {type(given).__name__}"
    why = f"it is no memory of {device.name} that kernels could use"
    fix = "pass it as an array, or bind a DeviceArray, a buffer or a tensor of the device"
    raise InputError(what, why, fix)


def fresh_array(device: DeviceInfo, info: TensorInfo) -> DeviceArray:
    """An array in the device's memory that holds nothing yet."""
    size = _bytes(info)
    if device == CPU:
        return DeviceArray(HostMemory(size), info.shape, info.dtype, device)
    memory = backend_of(device).make_memory(with_known_facts(device), size)
    return DeviceArray(memory, info.shape, info.dtype, device)


def with_bound(
    infos: Sequence[TensorInfo], inputs: Inputs, bound: Mapping[str, MemoryBinding]
) -> Mapping[str, Any]:
    """What a caller passed, by name, with inputs that are bound; who passes a list, or one array,
    leaves those out.
    """
    there = {info.name: bound[info.name].held for info in infos if info.name in bound}
    if inputs is None:
        return there
    if isinstance(inputs, Mapping):
        return {**there, **inputs}
    left = [info.name for info in infos if info.name not in there]
    given = inputs if isinstance(inputs, LISTS) and len(left) != 1 else [inputs]
    if len(given) != len(left):
        what = f"{len(given)} arrays were passed for {len(left)} inputs"
        raise InputError(what, f"{list(there)} are bound, {left} are left", "pass a dict by name")
    return {**there, **dict(zip(left, given, strict=True))}


def refuse_in_flight(arrays: Sequence[Any], bound: Mapping[str, Any]) -> None:
    """Runs in flight have memory of their own for each; an InputError where a caller's is meant."""
    if bound or not all(isinstance(one, np.ndarray) for one in arrays):
        what = "memory of the device was passed for a run in flight"
        why = "each of those has its own, which arrays are copied to while others run"
        raise InputError(what, why, "use run(), which copies nothing then, or pass arrays")


class OutputMemory:
    """Which outputs of one run are left in the device's memory: those that are bound, those that a
    caller passed memory for, and where all are to be `kept` the others, too.
    """

    def __init__(self, device: DeviceInfo, bound: Mapping[str, MemoryBinding], kept: bool) -> None:
        self._device, self._bound, self._kept = device, bound, kept
        self._taken: list[tuple[TensorInfo, DeviceMemory]] = []
        self.held: dict[str, Any] = {}  # what the caller gets for them

    def take(self, info: TensorInfo, given: Any) -> DeviceMemory | None:
        """The memory for one output, of which a caller may have given something; None where it goes
        to the host.
        """
        binding = self._bound.get(info.name) if given is None else None
        if binding is not None:
            array = binding.array(self._device, info)
            self.held[info.name] = array if isinstance(binding.given, int) else binding.given
            return self._apart(info, array.memory)
        if given is None and self._kept:
            fresh = fresh_array(self._device, info)
            self.held[info.name] = fresh
            return fresh.memory
        if given is None or isinstance(given, ON_HOST):
            return None
        memory = take_memory(self._device, info, given)
        if memory is None:
            return None
        _check_writable(info, memory, given)
        self.held[info.name] = given
        return self._apart(info, memory)

    def taken(self, names: Sequence[str]) -> list[DeviceMemory] | None:
        """The caller's memory for all of these outputs; None where some have none."""
        found = [memory for _, memory in self._taken]
        return found if [info.name for info, _ in self._taken] == [*names] else None

    def _apart(self, info: TensorInfo, memory: DeviceMemory) -> DeviceMemory:
        """A caller's memory for an output; an InputError where another output is to be there."""
        for other, taken in self._taken:
            if overlap(taken, _bytes(other), memory, _bytes(info)):
                what = f"outputs {other.name!r} and {info.name!r} share memory of the device"
                raise InputError(what, "each result needs its own", "pass two buffers")
        self._taken.append((info, memory))
        return memory
