"""Staging buffers: memory that host and device use alternately."""

from __future__ import annotations

import ctypes
import threading
from ctypes import c_void_p
from typing import Any

import numpy as np

from fourfold.players.webgpu.binding.calls import UNKNOWN, Error
from fourfold.players.webgpu.binding.device import Device
from fourfold.players.webgpu.binding.objects import (
    COPY_SOURCE,
    COPY_TARGET,
    MAP_READ,
    MAP_WRITE,
    Buffer,
)
from fourfold.players.webgpu.binding.structures import (
    BufferMapCallback,
    CallbackInfo,
    StringView,
)

_SPONTANEOUS = 3
_SUCCESS = 1
_CALLBACK_TIMEOUT_S = 10.0  # for a callback that is running on another thread


class Staging(Buffer):
    """A buffer that the host can access while it is mapped, and otherwise the device."""

    def __init__(self, device: Device, size: int, upload: bool) -> None:
        usage = MAP_WRITE | COPY_SOURCE if upload else MAP_READ | COPY_TARGET
        super().__init__(device, size, usage)
        self._mode = MAP_WRITE if upload else MAP_READ
        self._range = "wgpuBufferGetMappedRange" if upload else "wgpuBufferGetConstMappedRange"
        self._answers: list[tuple[int, str]] = []
        self._answered = threading.Event()
        self._called = BufferMapCallback(self._note)
        address = ctypes.cast(self._called, c_void_p).value
        self._info = CallbackInfo(mode=_SPONTANEOUS, callback=address)
        self.asked = self.mapped = False

    def _note(self, status: int, message: StringView, *_: object) -> None:
        self._answers.append((status, str(message) if status != _SUCCESS else ""))
        self._answered.set()

    def ask(self) -> None:
        """Request the mapping, which happens when the device has finished the submitted work."""
        self._answers.clear()
        self._answered.clear()
        self.device.call("wgpuBufferMapAsync", self.pointer, self._mode, 0, self.size, self._info)
        self.asked = True

    def bytes(self) -> np.ndarray:
        """Return its memory until `unmap`; waits for the device if necessary."""
        if not self.mapped:
            if not self.asked:
                self.ask()
            if not self._answers:
                self.device.wait()
                self._answered.wait(_CALLBACK_TIMEOUT_S)  # the callback may run on another thread
            self._take()
        address: int | None = self.device.call(self._range, self.pointer, 0, self.size)
        if not address:
            raise Error(self._range, UNKNOWN, "the buffer is not mapped")
        memory: Any = (ctypes.c_ubyte * self.size).from_address(address)
        return np.frombuffer(memory, np.uint8)

    @property
    def answered(self) -> bool:
        """Return True if the mapping request was answered, or it is mapped."""
        return self.mapped or bool(self._answers)

    def _take(self) -> None:
        status, message = (
            self._answers.pop() if self._answers else (0, "the library did not answer")
        )
        self.asked = False
        if status != _SUCCESS:
            raise Error("wgpuBufferMapAsync", UNKNOWN, message or f"status {status}")
        self.mapped = True

    def unmap(self) -> None:
        """Return it to the device, unless it is not mapped."""
        if self.asked or self.mapped:
            self.asked = self.mapped = False
            self.device.call("wgpuBufferUnmap", self.pointer)
