"""Memory of the device among what a caller passes: looked at, checked, and made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from fourfold.cpu import CPU
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.players import DeviceMemory, backend_of, with_known_facts
from fourfold.players.host_memory import HostMemory
from fourfold.runtime.device_array import DeviceArray
from fourfold.runtime.inputs import LISTS, ON_HOST, Inputs
from fourfold.runtime.tensor_info import TensorInfo

TakeMemory = Callable[[TensorInfo, Any], DeviceMemory | None]


def take_memory(device: DeviceInfo, info: TensorInfo, given: Any) -> DeviceMemory | None:
    """The device's memory that a caller means for an input or output; None where what is passed is
    nothing of the kind. An InputError where it does not fit.
    """
    if isinstance(given, DeviceArray):
        _check_type(info, given.shape, given.dtype)
        if device == CPU:
            return given.memory
        _check_device(device, given)
        given = given.memory
    found = None if device == CPU else backend_of(device).import_memory(device, given)
    if found is None:
        return None
    if found.shape is not None and found.dtype is not None:
        _check_type(info, found.shape, found.dtype)
    needed = info.dtype.itemsize * prod(info.shape)
    if found.size < needed:
        what = f"the memory for {info.name!r} has {found.size} bytes, not {needed}"
        why = f"the model has {info.dtype}{list(info.shape)} there"
        raise InputError(what, why, f"make a buffer of {needed} bytes or more")
    return found


def _check_device(device: DeviceInfo, given: DeviceArray) -> None:
    if given.device != device:
        what = f"the array is on {given.device.name}, the model on {device.name}"
        raise InputError(what, "a device reaches its own memory only", "pass array.numpy()")


def _check_type(info: TensorInfo, shape: tuple[int, ...], dtype: Any) -> None:
    if (tuple(shape), dtype) != (tuple(info.shape), info.dtype):
        what = f"the memory for {info.name!r} is {dtype}{list(shape)}"
        why = f"the model has {info.dtype}{list(info.shape)} there"
        raise InputError(what, why, "memory of a device is taken as it is: make it so first")


def no_memory(name: str, given: object, device: DeviceInfo) -> InputError:
    """The error for something that is bound and is no memory of the device."""
    what = f"{name!r} cannot be bound to a {type(given).__name__}"
    why = f"it is no memory of {device.name} that kernels could use"
    fix = "pass arrays to run(), or bind a DeviceArray, a pyopencl.Buffer or a pyopencl.array.Array"
    return InputError(what, why, fix)


def fresh_array(device: DeviceInfo, info: TensorInfo) -> DeviceArray:
    """An array in the device's memory that holds nothing yet."""
    size = info.dtype.itemsize * prod(info.shape)
    if device == CPU:
        return DeviceArray(HostMemory(size), info.shape, info.dtype, device)
    memory = backend_of(device).make_memory(with_known_facts(device), size)
    return DeviceArray(memory, info.shape, info.dtype, device)


def with_bound(
    infos: Sequence[TensorInfo], inputs: Inputs, bound: Mapping[str, Any]
) -> Mapping[str, Any]:
    """What a caller passed, by name, with inputs that are bound; who passes a list, or one array,
    leaves those out.
    """
    there = {info.name: bound[info.name] for info in infos if info.name in bound}
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

    def __init__(self, device: DeviceInfo, bound: Mapping[str, Any], kept: bool) -> None:
        self._device, self._bound, self._kept = device, bound, kept
        self.held: dict[str, Any] = {}  # what the caller gets for them

    def take(self, info: TensorInfo, given: Any) -> DeviceMemory | None:
        """The memory for one output, of which a caller may have given something; None where it goes
        to the host.
        """
        one = self._bound.get(info.name) if given is None else given
        if one is None and self._kept:
            one = fresh_array(self._device, info)
        if one is None or isinstance(one, ON_HOST):
            return None
        memory = take_memory(self._device, info, one)
        if memory is not None:
            self.held[info.name] = one
        return memory
