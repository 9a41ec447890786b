"""DeviceArray: a result that stays in the device's memory until somebody wants it elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from fourfold.backends import DeviceMemory, backend_of, with_known_facts
from fourfold.backends.dlpack_devices import CPU, CUDA
from fourfold.device import DeviceInfo
from fourfold.support.lazy import lazy_import
from fourfold.types import Shape

dlpack = lazy_import("fourfold.backends.dlpack_structures")
export = lazy_import("fourfold.backends.dlpack_export")
HOST = (CPU, 0)  # as DLPack calls it


class DeviceArray:
    """An array in a device's memory: an input for sessions of that device, without a way through
    the host. `numpy()` fetches it; DLPack passes it on to packages that know the device.
    """

    def __init__(self, memory: DeviceMemory, shape: Shape, dtype: np.dtype, device: DeviceInfo):
        self.memory, self.shape, self.dtype, self.device = memory, tuple(shape), dtype, device

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements it has."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def handle(self) -> int:
        """What the device's API knows the memory by: for CUDA its address, for OpenCL the cl_mem:
        `pyopencl.Buffer.from_int_ptr(array.handle)`.
        """
        return self.memory.handle

    def numpy(self, out: np.ndarray | None = None) -> np.ndarray:
        """A copy on the host, as a new array or in `out`."""
        array = np.empty(self.shape, self.dtype) if out is None else out
        if array.shape == self.shape and array.dtype == self.dtype and array.flags.c_contiguous:
            self.memory.read(array)
        else:
            np.copyto(array, self.numpy(), casting="safe")
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("an array in a device's memory cannot be seen without a copy")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.memory.dlpack_device

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The memory as it is, or a copy of it, on the host if `dl_device` says so. What was to be
        written there is written, so the `stream` of its taker has nothing to wait for.
        """
        host = self.memory.host
        if host is not None:
            asked = {"stream": stream, "max_version": max_version, "dl_device": dl_device}
            given = {name: one for name, one in (asked | {"copy": copy}).items() if one is not None}
            return host[: self.nbytes].view(self.dtype).reshape(self.shape).__dlpack__(**given)
        has_flags = max_version is not None and max_version[0] >= dlpack.VERSION[0]
        device = self.__dlpack_device__()
        wanted = device if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
        if wanted == device and not copy:
            return self._shared(has_flags)
        if wanted not in (device, HOST):
            raise BufferError(
                f"an array on device {device} can be copied to the host, not {wanted}"
            )
        if copy is False:
            raise BufferError("an array in a device's memory reaches the host by a copy alone")
        return self._copied(wanted, dlpack.IS_COPIED if has_flags else None)

    def _shared(self, has_flags: bool) -> Any:
        """The memory as it is, for one who understands flags or does not."""
        read_only = self.memory.read_only
        if read_only and not has_flags:
            raise BufferError("this array may not be written to: ask for DLPack 1.0, which says so")
        flags = dlpack.READ_ONLY * read_only if has_flags else None
        return self._capsule(flags)

    def _capsule(self, flags: int | None) -> Any:
        handle, device = self.memory.handle, self.memory.dlpack_device
        return export.make_capsule(self, handle, device, self.shape, self.dtype, flags)

    def _copied(self, wanted: tuple[int, int], flags: int | None) -> Any:
        """A copy on the host, or by way of it on the device itself."""
        array = self.numpy()
        if wanted == HOST:
            return export.make_capsule(
                array, array.ctypes.data, HOST, self.shape, self.dtype, flags
            )
        memory = backend_of(self.device).make_memory(with_known_facts(self.device), self.nbytes)
        memory.write(array)
        return DeviceArray(memory, self.shape, self.dtype, self.device)._capsule(flags)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory as libraries of CUDA know it; no other device has this."""
        if self.memory.dlpack_device[0] != CUDA:
            raise AttributeError("this array is not in CUDA's memory")
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.memory.handle if self.size else 0, self.memory.read_only),
            "strides": None,
            "stream": None,  # all is written
            "version": 3,
        }

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without a shape")
        return self.shape[0]

    def __repr__(self) -> str:
        sizes = ", ".join(map(str, self.shape))
        return f"DeviceArray({self.dtype}[{sizes}] on {self.device.name})"
