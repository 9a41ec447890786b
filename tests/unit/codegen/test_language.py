"""Languages: device facts that they cannot use, and text that they need besides kernels."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_devices import EXTENDED, IMAGES, NVIDIA, X86

from fourfold.codegen import expression as e
from fourfold.codegen.capabilities import Capabilities
from fourfold.codegen.context import KernelOptions, Target
from fourfold.codegen.intrinsics import pack_halves, subgroup_exchange, unpack_halves
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.language import Language, find_language, make_target
from fourfold.codegen.opencl.language import OpenCL
from fourfold.codegen.walk import special_nodes
from fourfold.device import DeviceInfo
from fourfold.types import DType

OPENCL = find_language("opencl")


class Mute(OpenCL):
    """OpenCL without special features."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("Mute", kinds=frozenset(("float", "int", "bool")), local_memory=False)

    @property
    def persistent(self) -> None:
        return None


def limited(language: Language, device: DeviceInfo) -> DeviceInfo:
    return make_target(language, device, KernelOptions()).device


@pytest.mark.parametrize("like", [X86, NVIDIA, EXTENDED, IMAGES])
def test_opencl_can_use_all_facts(like: DeviceInfo) -> None:
    assert limited(OPENCL, like) is like


@pytest.mark.parametrize("like", [X86, NVIDIA, EXTENDED, IMAGES])
def test_unsupported_facts_are_dropped(like: DeviceInfo) -> None:
    facts = limited(Mute(), like)
    lost = (facts.dot_products, facts.subgroups, facts.packs_bytes, facts.matrix_units)
    lost += (facts.resident, facts.reaches_host, facts.half_arithmetic, facts.image_texels)
    assert not any((*lost, facts.prefers_images))
    assert (facts.local_memory, facts.max_work_group) == (0, 1)
    assert (facts.name, facts.kind, facts.compute_units) == (
        like.name,
        like.kind,
        like.compute_units,
    )


def test_host_memory_needs_one_launch() -> None:
    class Listing(OpenCL):
        @property
        def persistent(self) -> None:
            return None

    assert limited(OPENCL, NVIDIA).reaches_host
    assert not limited(Listing(), NVIDIA).reaches_host


def test_language_defines_subgroup_size() -> None:
    sizes = OPENCL.capabilities.subgroups
    assert (sizes["ptx"], sizes["khr"]) == (32, None)


def packing() -> Kernel:
    kernel = Kernel("packing", literal=True)
    target = kernel.pointer("dst", DType.F32, None, writable=True)
    with kernel.loop(4) as i:
        value = e.widen(e.convert(i, "float"), 4)
        kernel.store(target, i, unpack_halves(pack_halves(value)) * 2.0)
    return kernel


def test_finds_nested_special_nodes() -> None:
    assert {node.op for node in special_nodes([packing()])} == {"pack_halves", "unpack_halves"}  # type: ignore[union-attr]
    kernel = Kernel("exchanging", literal=True)
    kernel.let(subgroup_exchange(e.name("x", "float"), 1) + 1.0)
    kernel.prefetch(kernel.pointer("src", DType.F32, None), 0)
    assert len(special_nodes([kernel, packing()])) == 4
    assert special_nodes([Kernel("nothing", literal=True)]) == []


def prelude(device: DeviceInfo, options: KernelOptions, *kernels: Kernel) -> tuple[str, str, str]:
    made = OPENCL.prelude(special_nodes(kernels), Target(device, options, OPENCL.capabilities))
    return made.text, made.build_options, made.version


def test_prelude_has_only_called_functions() -> None:
    text, *_ = prelude(NVIDIA, KernelOptions(), packing())
    assert text.count("static uint2 pack_halves") == text.count("static float4 unpack_halves") == 1
    assert "matrix_multiply" not in text
    assert prelude(NVIDIA, KernelOptions()) == ("", "-cl-std=CL1.2", "1.2")
    assert prelude(NVIDIA, KernelOptions("fp16"))[0].startswith("#pragma")


def test_newer_version_only_if_needed() -> None:
    kernel = Kernel("exchanging", literal=True)
    kernel.let(subgroup_exchange(e.name("x", "float"), 1))
    assert prelude(EXTENDED, KernelOptions())[2] == "1.2"
    assert prelude(EXTENDED, KernelOptions(), kernel)[1:] == ("-cl-std=CL3.0", "3.0")
    assert prelude(replace(EXTENDED, subgroups="ptx"), KernelOptions(), kernel)[2] == "1.2"
