"""Devices that are not attached, for tests of planning only."""

from __future__ import annotations

from dataclasses import replace

from fourfold.backends.null import NULL_GPU
from fourfold.codegen.context import KernelOptions, Target
from fourfold.codegen.language import find_language, make_target
from fourfold.device import DeviceInfo

LARGE = replace(NULL_GPU, compute_units=132, max_work_group=1024, local_memory=49152)
TENSOR_CORES = replace(LARGE, matrix_units=True)
H200 = replace(TENSOR_CORES, resident=True, reaches_host=True)
X86 = replace(
    NULL_GPU,
    kind="cpu",
    compute_units=2,
    half_arithmetic=False,
    dot_products="x86",
    forward_progress=True,
)
EXTENDED = replace(NULL_GPU, subgroups="khr", dot_products="khr", image_texels=1 << 16)
IMAGES = replace(EXTENDED, image_windows=True, prefers_images=True)
NVIDIA = replace(H200, subgroups="ptx", dot_products="ptx")


def target_of(device: DeviceInfo, options: KernelOptions | None = None) -> Target:
    """Return the lowering target of a device in its own language."""
    return make_target(find_language(device.language), device, options or KernelOptions())
