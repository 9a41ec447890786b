"""The numbers by which DLPack knows kinds of devices."""

from __future__ import annotations

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
