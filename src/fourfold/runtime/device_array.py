"""DeviceArray: a result that stays in the device's memory until somebody wants it elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.lazy import lazy_import
from fourfold.players import DeviceMemory
from fourfold.players.dlpack_devices import CUDA
from fourfold.types import Shape

dlpack = lazy_import("fourfold.players.dlpack")


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

    def __dlpack__(self, **options: Any) -> Any:
        """The memory as it is. What was to be written there is written, so a stream that its taker
        names has nothing to wait for.
        """
        host = self.memory.host
        if host is not None:
            return host[: self.nbytes].view(self.dtype).reshape(self.shape).__dlpack__(**options)
        device = self.memory.dlpack_device
        if options.get("dl_device") not in (None, device) or options.get("copy"):
            raise BufferError(f"this array is shared on device {device} alone, and not copied")
        return dlpack.make_capsule(self, self.memory.handle, device, self.shape, self.dtype)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory as libraries of CUDA know it; no other device has this."""
        if self.memory.dlpack_device[0] != CUDA:
            raise AttributeError("this array is not in CUDA's memory")
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.memory.handle, self.memory.read_only),
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
