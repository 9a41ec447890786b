"""WebGPU devices: calls that raise errors, and waiting for submitted work."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Collection
from ctypes import byref, c_uint32, c_uint64, c_void_p
from typing import Any

import numpy as np

from fourfold.backends.webgpu.binding.adapter import FEATURES, Adapter, process_events
from fourfold.backends.webgpu.binding.calls import API, LOST, UNKNOWN, Error, give_back, library
from fourfold.backends.webgpu.binding.structures import (
    CallbackInfo,
    DeviceCallback,
    DeviceDescriptor,
    RequestDeviceCallback,
    StringView,
)
from fourfold.support import forks

_SPONTANEOUS = 3  # a callback may be called at any time, on any thread
_SUCCESS = 1


class Device:
    """A WebGPU device: a context and a queue. Thread-safe."""

    def __init__(self, adapter: Adapter, features: Collection[str]) -> None:
        """Request a device with these features, and with all of the adapter's limits."""
        self.adapter, self.features = adapter, frozenset(features)
        self.lost = ""  # the reason, if it is lost
        self._problems: list[tuple[int, int, str]] = []  # thread, type and message of each error
        self._on_lost = DeviceCallback(self._note_loss)
        self._on_error = DeviceCallback(self._note_error)
        self.pointer: int = self._request()
        self.queue: int = self.call("wgpuDeviceGetQueue", self.pointer)

    def _request(self) -> int:
        numbers = [FEATURES[name] for name in sorted(self.features)]
        descriptor = DeviceDescriptor(
            requiredFeatureCount=len(numbers),
            requiredFeatures=(c_uint32 * max(len(numbers), 1))(*numbers),
            requiredLimits=ctypes.pointer(self.adapter.limits),
        )
        losing, failing = descriptor.deviceLostCallbackInfo, descriptor.uncapturedErrorCallbackInfo
        losing.mode, losing.callback = _SPONTANEOUS, _address(self._on_lost)
        failing.callback = _address(self._on_error)
        answers: list[tuple[int, int | None, str]] = []

        def answer(status: int, pointer: int | None, message: StringView, *_: object) -> None:
            answers.append((status, pointer, str(message)))

        called = RequestDeviceCallback(answer)
        info = CallbackInfo(mode=_SPONTANEOUS, callback=_address(called))
        library().wgpuAdapterRequestDevice(self.adapter.pointer, byref(descriptor), info)
        process_events()
        status, pointer, message = (
            answers[0] if answers else (0, None, "the library did not answer")
        )
        if status != _SUCCESS or not pointer:
            raise Error("wgpuAdapterRequestDevice", UNKNOWN, message)
        return pointer

    def _note_loss(self, _device: int, _reason: int, message: StringView, *_: object) -> None:
        self.lost = str(message) or "the driver gave no reason"

    def _note_error(self, _device: int, kind: int, message: StringView, *_: object) -> None:
        self._problems.append((threading.get_ident(), kind, str(message)))

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the library; raises an Error if it reports one."""
        if API in forks.lost:
            raise Error(name, LOST, "the device belongs to the parent of this forked process")
        result = getattr(library(), name)(*arguments)
        self.check(name)
        return result

    def check(self, function: str) -> None:
        """Raise an error that the library reported to this thread since the last check."""
        if self._problems:
            own = threading.get_ident()
            mine = [problem for problem in self._problems if problem[0] == own]
            for problem in mine:
                self._problems.remove(problem)
            if mine:
                _, kind, message = mine[0]
                raise Error(function, LOST if self.lost else kind, self.lost or message)
        if self.lost:
            raise Error(function, LOST, self.lost)

    def create(self, what: str, descriptor: ctypes.Structure) -> int:
        """Create an object of the device."""
        name = f"wgpuDeviceCreate{what}"
        pointer: int | None = self.call(name, self.pointer, byref(descriptor))
        if not pointer:
            raise Error(name, UNKNOWN, "it returned nothing")
        return pointer

    def submit(self, commands: int) -> c_uint64:
        """Submit recorded commands to the queue; returns the index to wait for."""
        buffers = (c_void_p * 1)(commands)
        index = self.call("wgpuQueueSubmitForIndex", self.queue, 1, buffers)
        give_back("wgpuCommandBufferRelease", commands)
        return c_uint64(index)

    def wait(self, index: c_uint64 | None = None) -> None:
        """Wait for all work up to an index, or for all work."""
        self.call("wgpuDevicePoll", self.pointer, 1, None if index is None else byref(index))

    def poll(self) -> None:
        """Run the callbacks of finished work."""
        self.call("wgpuDevicePoll", self.pointer, 0, None)

    def write(self, buffer: int, offset: int, array: np.ndarray) -> None:
        """Copy a contiguous array of whole words into a buffer."""
        self.call(
            "wgpuQueueWriteBuffer", self.queue, buffer, offset, array.ctypes.data, array.nbytes
        )

    @property
    def timestamp_seconds(self) -> float:
        """Seconds per tick of the device's clock."""
        return float(self.call("wgpuQueueGetTimestampPeriod", self.queue)) * 1e-9

    def destroy(self) -> None:
        """Destroy the device: its memory is freed, and it becomes unusable."""
        give_back("wgpuDeviceDestroy", self.pointer)
        process_events()


def _address(callback: Callable[..., None]) -> int:
    address = ctypes.cast(callback, c_void_p).value  # type: ignore[arg-type]
    assert address is not None
    return address
