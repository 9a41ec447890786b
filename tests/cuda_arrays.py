"""Arrays in CUDA memory of other libraries, with one class for each export protocol."""

from __future__ import annotations

from typing import Any

import numpy as np

from fourfold.backends.cuda.memory import OwnMemory
from fourfold.backends.dlpack_devices import CUDA
from fourfold.backends.dlpack_export import make_capsule
from fourfold.device import DeviceInfo


class ForeignArray:
    """An array of another library in CUDA memory, with `skipped` bytes before it."""

    def __init__(self, device: DeviceInfo, array: np.ndarray, skipped: int = 0) -> None:
        room = np.zeros(skipped + array.nbytes, np.uint8)
        room[skipped:] = array.reshape(-1).view(np.uint8)
        self.memory = OwnMemory(device, room.nbytes)
        self.memory.write(room)
        self.address, self.ordinal = self.memory.address + skipped, device.ordinal
        self.shape, self.dtype = array.shape, array.dtype
        self._room, self._skipped = room, skipped

    def numpy(self) -> np.ndarray:
        self.memory.read(self._room)
        return self._room[self._skipped :].view(self.dtype).reshape(self.shape).copy()


class Tensor(ForeignArray):
    """Supports unversioned DLPack, like older PyTorch; `streams` records the consumers' streams."""

    streams: list[int | None]

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.ordinal

    def __dlpack__(self, *, stream: int | None = None) -> Any:
        self.streams = [*getattr(self, "streams", ()), stream]
        return self.capsule(None)

    def capsule(self, flags: int | None) -> Any:
        device = self.__dlpack_device__()
        return make_capsule(self, self.address, device, self.shape, self.dtype, flags)


class VersionedTensor(Tensor):
    """Supports only DLPack 1.0; `versions` records the requested versions."""

    flags = 0
    versions: list[tuple[int, int]]

    def __dlpack__(
        self, *, stream: int | None = None, max_version: tuple[int, int] | None = None
    ) -> Any:
        if max_version is None or max_version[0] < 1:
            raise BufferError("this is of DLPack 1.0")
        self.streams = [*getattr(self, "streams", ()), stream]
        self.versions = [*getattr(self, "versions", ()), max_version]
        return self.capsule(self.flags)


class Interface(ForeignArray):
    """Supports only `__cuda_array_interface__`, like Numba."""

    changes: dict[str, Any]

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        interface = {"shape": self.shape, "typestr": self.dtype.str, "version": 3}
        interface |= {"data": (self.address, False), "strides": None}
        return interface | getattr(self, "changes", {})
