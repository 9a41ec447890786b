"""Device type numbers of DLPack."""

from __future__ import annotations

from typing import Any

CPU, CUDA, PINNED, OPENCL, MANAGED, WEBGPU = 1, 2, 3, 4, 13, 15
ON_HOST = (CPU, PINNED, 11, MANAGED)  # accessible by the CPU; 11 is ROCm's pinned memory
NAMES = {
    CUDA: "CUDA",
    OPENCL: "OpenCL",
    7: "Vulkan",
    8: "Metal",
    10: "ROCm",
    14: "oneAPI",
    WEBGPU: "WebGPU",
}


def device_kind(given: Any) -> int | None:
    """Return the DLPack device type of an object; None if it does not support DLPack or has no
    memory to export.
    """
    try:
        return int(given.__dlpack_device__()[0])
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError):
        return None


def is_jax_array(given: Any) -> bool:
    """Return True for a JAX array, which is immutable; older ones do not report this through
    DLPack.
    """
    return type(given).__module__.partition(".")[0] in ("jax", "jaxlib")
