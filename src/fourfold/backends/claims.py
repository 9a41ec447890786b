"""Device features that an OpenCL driver claims; they are probed before they are relied on."""

from __future__ import annotations

from collections.abc import Collection

from fourfold.device import Fact

# GPUs known to read weights faster through the texture cache.
_IMAGE_READERS = ("adreno", "qualcomm")


def language_version(version: str) -> str:
    """Return the OpenCL C version for a device version such as 'OpenCL 3.0 '."""
    words = version.split()
    is_number = len(words) > 1 and words[1].replace(".", "", 1).isdigit()
    return words[1] if is_number else "1.2"


def claims_of(
    maker: str,
    platform: str,
    kind: str,
    extensions: Collection[str],
    image_texels: int,
    multiplies_bytes: bool,
) -> dict[str, Fact]:
    """Return the features a device may have.

    `maker` is the name of the device and of its vendor; `multiplies_bytes` is whether a CPU has
    int8 dot products.
    """
    maker = maker.lower()
    nvidia = kind == "gpu" and "nvidia" in platform.lower()
    return {
        "half_arithmetic": "cl_khr_fp16" in extensions,
        "matrix_units": nvidia or (kind == "gpu" and "nvidia" in maker),
        "subgroups": _subgroups(nvidia, extensions),
        "dot_products": _dot_products(kind, nvidia, extensions, multiplies_bytes),
        "image_texels": image_texels,
        "prefers_images": any(word in maker for word in _IMAGE_READERS),
        "kernel_clock": "cl_khr_kernel_clock" in extensions,
    }


def _dot_products(
    kind: str, nvidia: bool, extensions: Collection[str], multiplies_bytes: bool
) -> str:
    if kind == "cpu":  # the extension's functions are far slower than fp32 on a CPU
        return "x86" if multiplies_bytes else ""
    if nvidia:
        return "ptx"
    return "khr" if "cl_khr_integer_dot_product" in extensions else ""


def _subgroups(nvidia: bool, extensions: Collection[str]) -> str:
    if nvidia:
        return "ptx"
    return "khr" if "cl_khr_subgroup_shuffle" in extensions else ""
