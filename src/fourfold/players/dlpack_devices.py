"""The numbers by which DLPack knows kinds of devices."""

from __future__ import annotations

from typing import Any

CPU, CUDA, PINNED, OPENCL, MANAGED, WEBGPU = 1, 2, 3, 4, 13, 15
ON_HOST = (
    CPU,
    PINNED,
    11,
    MANAGED,
)  # those whose memory the CPU reaches: ROCm's pinned, CUDA's managed
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
    """What kind of device has the memory of an object; None where it does not speak DLPack, or has
    no memory that it could give.
    """
    try:
        return int(given.__dlpack_device__()[0])
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError):
        return None


def is_of_jax(given: Any) -> bool:
    """Whether it is an array of JAX, which never changes; older ones do not say so by DLPack."""
    return type(given).__module__.partition(".")[0] in ("jax", "jaxlib")
