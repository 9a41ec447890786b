"""DeviceArray: a result that stays in device memory until it is fetched."""

from __future__ import annotations

from typing import Any

import numpy as np

from fourfold.backends import DeviceMemory, backend_of, with_known_facts
from fourfold.backends.dlpack_devices import CPU, CUDA
from fourfold.device import DeviceInfo
from fourfold.support.display import visible
from fourfold.support.lazy import lazy_import
from fourfold.types import Shape

dlpack = lazy_import("fourfold.backends.dlpack_structures")
export = lazy_import("fourfold.backends.dlpack_export")
HOST = (CPU, 0)  # DLPack device of host memory


class DeviceArray:
    """An array in device memory. Sessions on that device take it as an input without a copy through
    the host. `numpy()` fetches it, and DLPack shares it with other libraries.
    """

    def __init__(self, memory: DeviceMemory, shape: Shape, dtype: np.dtype, device: DeviceInfo):
        self.memory, self.shape, self.dtype, self.device = memory, tuple(shape), dtype, device

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def handle(self) -> int:
        """Handle of the memory in the device's API: an address for CUDA, a cl_mem for OpenCL.
        PyOpenCL takes it with `pyopencl.Buffer.from_int_ptr(array.handle)`.
        """
        return self.memory.handle

    def numpy(self, out: np.ndarray | None = None) -> np.ndarray:
        """Return a copy on the host, in `out` if given."""
        array = np.empty(self.shape, self.dtype) if out is None else out
        if array.shape == self.shape and array.dtype == self.dtype and array.flags.c_contiguous:
            self.memory.read(array)
        else:
            np.copyto(array, self.numpy(), casting="safe")
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("an array in device memory cannot be viewed without a copy")
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
        """Return the memory, or a copy of it, on the host if `dl_device` says so. All writes have
        completed, so the consumer's `stream` has nothing to wait for.
        """
        host = self.memory.host
        if host is not None:
            arguments = {"stream": stream, "max_version": max_version, "dl_device": dl_device}
            arguments["copy"] = copy
            passed = {name: one for name, one in arguments.items() if one is not None}
            return host[: self.nbytes].view(self.dtype).reshape(self.shape).__dlpack__(**passed)
        has_flags = max_version is not None and max_version[0] >= dlpack.VERSION[0]
        device = self.__dlpack_device__()
        target = device if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
        if target == device and not copy:
            return self._shared(has_flags)
        if target not in (device, HOST):
            raise BufferError(
                f"an array on device {device} can be copied to the host, not {target}"
            )
        if copy is False:
            raise BufferError("an array in device memory can only be copied to the host")
        return self._copied(target, dlpack.IS_COPIED if has_flags else None)

    def _shared(self, has_flags: bool) -> Any:
        """Return a capsule of the memory itself; `has_flags` says whether the consumer
        knows flags.
        """
        read_only = self.memory.read_only
        if read_only and not has_flags:
            raise BufferError("this array is read-only: request DLPack 1.0, which can express that")
        flags = dlpack.READ_ONLY * read_only if has_flags else None
        return self._capsule(flags)

    def _capsule(self, flags: int | None) -> Any:
        memory = self.memory
        return export.make_capsule(
            self, memory.handle, memory.dlpack_device, self.shape, self.dtype, flags
        )

    def _copied(self, target: tuple[int, int], flags: int | None) -> Any:
        """Return a capsule of a copy, on the host or, copied through the host, on the device."""
        array = self.numpy()
        if target == HOST:
            return export.make_capsule(
                array, array.ctypes.data, HOST, self.shape, self.dtype, flags
            )
        memory = backend_of(self.device).make_memory(with_known_facts(self.device), self.nbytes)
        memory.write(array)
        return DeviceArray(memory, self.shape, self.dtype, self.device)._capsule(flags)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA array interface; arrays on other devices do not have it."""
        if self.memory.dlpack_device[0] != CUDA:
            raise AttributeError("this array is not in CUDA memory")
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.memory.handle if self.size else 0, self.memory.read_only),
            "strides": None,
            "stream": None,  # all writes have completed
            "version": 3,
        }

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __repr__(self) -> str:
        sizes = ", ".join(map(str, self.shape))
        return visible(f"DeviceArray({self.dtype}[{sizes}] on {self.device.name})")
