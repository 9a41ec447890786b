"""Plan requirements are recorded by lowering, compared with device facts, and reported if unmet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fake_devices import EXTENDED, LARGE, NVIDIA, TENSOR_CORES, X86
from random_graphs import build

from fourfold.backends.null import NULL_GPU
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.graph import Graph, Node, Step
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.plan import Plan, Requirements
from fourfold.plan.requirements import (
    ImageNeed,
    hardest_images,
    join_requirements,
    read_requirements,
    requirements_record,
)
from fourfold.types import TensorType

CPU = replace(NULL_GPU, kind="cpu", compute_units=2, max_work_group=4096, forward_progress=True)
READER = replace(NULL_GPU, image_texels=65536, prefers_images=True)
NETWORK = """
    input x: f32[1,14,14,32]
    const v: f32[64,1,1,32]
    const w: f32[64,1,1,64]
    const u: f32[64,1,1,64]
    a = conv2d(x, v)
    b = relu(a)
    c = conv2d(b, w)
    d = relu(c)
    e = conv2d(d, u)
    f = mean(e; axes=(1, 2), keep_dims=True)
    y = softmax(f)
    output y
    """


def network() -> Graph:
    return rewrite(build(NETWORK))


def int8_layer() -> Graph:
    """Return a convolution of quantized values with integer weights."""
    weights = np.random.default_rng(1).integers(-99, 99, (16, 1, 1, 16)).astype(np.float32)
    value, steps = TensorType.parse("f32[1,8,8,16]"), FakeQuantize(1.0, -97, 158, 1.0)
    types = {**dict.fromkeys("xvyz", value), "w": TensorType.of(weights)}
    nodes = (
        Node("fake_quantize", ("x",), ("v",), steps),
        Node(
            "conv2d",
            ("v", "w", None),
            ("y",),
            Conv2d(),
            tail=(Step("fake_quantize", replace(steps, scale=300.0), (None,)),),
        ),
        Node("identity", ("y",), ("z",)),
    )
    return Graph(nodes, ("x",), ("z",), types, {"w": weights})


def plan_for(device: DeviceInfo, graph: Graph | None = None, **options: Any) -> Plan:
    return make_plan(graph or network(), device, KernelOptions(**options))


def test_plain_plan_requires_sizes_only() -> None:
    plan = plan_for(NULL_GPU)
    needed = plan.requirements
    sizes = {
        "work_group": max(int(np.prod(launch.local)) for launch in plan.launches),
        "buffer_bytes": max(buffer.bytes for buffer in plan.buffers),
        "local_memory": needed.local_memory,
        "alignment": 64,
    }
    assert needed == Requirements(**sizes)
    assert needed.unmet(NULL_GPU) == ()
    assert str(plan).startswith("requires opencl 1.2; ")


@pytest.mark.parametrize("precision", ["fp32", "mixed"])
@pytest.mark.parametrize("facts", [NULL_GPU, CPU, READER, NVIDIA, LARGE])
def test_device_meets_the_requirements_of_its_plans(facts: DeviceInfo, precision: str) -> None:
    for form in ("auto", "list", "one"):
        plan = plan_for(facts, precision=precision, form=form)
        assert plan.requirements.unmet(facts) == ()


def test_one_launch_on_a_gpu_requires_resident_groups() -> None:
    plan = plan_for(NVIDIA, precision="mixed")
    needed = plan.requirements
    assert (needed.resident_groups, needed.reaches_host) == (132, True)
    assert (needed.address_bits, needed.matrix_units) == (64, True)
    small = replace(NVIDIA, compute_units=16)
    assert "has 16 units" in needed.unmet(small)[0]
    assert "resident at once" in needed.unmet(replace(NVIDIA, resident=False))[0]
    assert "host memory" in needed.unmet(replace(NVIDIA, reaches_host=False))[0]
    assert "64 bits" in needed.unmet(replace(NVIDIA, address_bits=32))[0]
    listed = plan_for(NVIDIA, precision="mixed", form="list").requirements
    assert (listed.resident_groups, listed.reaches_host, listed.address_bits) == (0, False, 0)
    assert listed.matrix_units


def test_one_launch_of_one_kernel_requires_resident_groups() -> None:
    graph = rewrite(build("input x: f32[3,5]\ny = exp(x)\noutput y"))
    needed = plan_for(NVIDIA, graph, form="one").requirements
    assert needed.resident_groups == 132


def test_one_launch_on_a_cpu_requires_forward_progress() -> None:
    plan, needed = plan_for(CPU), plan_for(CPU).requirements
    assert len(plan.launches) == 1 < plan.stages
    assert (needed.resident_groups, needed.forward_progress) == (0, True)
    assert needed.unmet(CPU) == ()
    without_progress = replace(CPU, forward_progress=False)
    assert needed.unmet(without_progress) == (
        "its work-groups wait for work that others have started",
    )
    assert needed.undecided(without_progress) == ("forward_progress",)
    assert not plan_for(without_progress).requirements.forward_progress


def test_fp16_loads_with_gpu_instructions_require_matrix_units() -> None:
    """On such a GPU, kernels load fp16 values with its own instructions."""
    graph = rewrite(build("input x: f32[1,64,64,64]\ny = exp(x)\noutput y"))
    assert plan_for(TENSOR_CORES, graph, precision="mixed").requirements.matrix_units
    assert not plan_for(TENSOR_CORES, graph).requirements.matrix_units


def test_fp16_plans_require_fp16_arithmetic() -> None:
    needed = plan_for(NULL_GPU, precision="fp16").requirements
    assert needed.half_arithmetic
    assert not plan_for(NULL_GPU, precision="mixed").requirements.half_arithmetic
    assert "fp16 arithmetic" in needed.unmet(replace(NULL_GPU, half_arithmetic=False))[0]


def test_khr_sub_groups_require_opencl_3() -> None:
    needed = plan_for(replace(NULL_GPU, subgroups="khr")).requirements
    assert (needed.subgroups, needed.language_version) == ("khr", "3.0")
    able = replace(NULL_GPU, subgroups="khr", language_version="3.0")
    assert needed.unmet(able) == ()
    assert "opencl 1.2" in needed.unmet(replace(able, language_version="1.2"))[0]
    assert "sub-groups with khr" in needed.unmet(replace(able, subgroups="ptx"))[0]


@pytest.mark.parametrize(
    ("spelling", "kind", "version"),
    [("x86", "cpu", "1.2"), ("khr", "gpu", "3.0"), ("ptx", "gpu", "1.2")],
)
def test_plans_require_their_dot_product_instructions(
    spelling: str, kind: str, version: str
) -> None:
    device = replace(NULL_GPU, kind=kind, dot_products=spelling, language_version="3.0")
    needed = plan_for(device, int8_layer()).requirements
    assert (needed.dot_products, needed.language_version) == (spelling, version)
    assert needed.packs_bytes == (spelling == "x86")
    assert needed.unmet(device) == ()
    for other in {"x86", "khr", "ptx", ""} - {spelling}:
        assert (
            f"dot products with {spelling}" in needed.unmet(replace(device, dot_products=other))[0]
        )
    assert plan_for(replace(device, dot_products=""), int8_layer()).requirements.dot_products == ""


def test_plans_require_image_texels() -> None:
    plan = plan_for(READER)
    uses = [use for one in plan.launches for use in one.arguments if getattr(use, "image", None)]
    needed = plan.requirements
    end = max(use.end_of_image for use in uses)
    assert max(image.end for image in needed.images) == end
    assert needed.unmet(replace(READER, image_texels=end)) == ()
    assert "texels" in needed.unmet(replace(READER, image_texels=end - 1))[0]
    assert "texels" in needed.unmet(replace(READER, image_texels=0))[0]


def test_image_windows_reduce_the_required_texels() -> None:
    image = ImageNeed(end=5000, texels=300, texel_bytes=16)
    device = replace(NULL_GPU, alignment=128, image_windows=True)
    assert image.fits(replace(device, image_texels=308))
    assert not image.fits(replace(device, image_texels=307))
    assert not image.fits(replace(device, image_texels=308, image_windows=False))
    assert image.fits(replace(device, image_texels=5000, image_windows=False))


def test_only_the_largest_image_requirements_are_stored() -> None:
    far, long, small = ImageNeed(900, 10, 16), ImageNeed(500, 400, 16), ImageNeed(400, 9, 16)
    narrow = ImageNeed(450, 20, 8)
    kept = hardest_images([small, narrow, long, far, small, long._replace(texel_bytes=32)])
    assert set(kept) == {far, long, narrow}
    for texels in range(0, 1000, 7):
        for windows in (False, True):
            device = replace(NULL_GPU, image_texels=texels, image_windows=windows)
            every = all(one.fits(device) for one in (far, long, small, narrow))
            assert every == all(one.fits(device) for one in kept)


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        ({"max_work_group": 8}, "work-groups of"),
        ({"local_memory": 16}, "local memory"),
        ({"max_allocation": 1000}, "bytes in one buffer"),
        ({"alignment": 16}, "multiples of 64"),
        ({"language": "wgsl"}, "takes wgsl"),
        ({"language_version": "1.1"}, "takes opencl 1.1"),
    ],
)
def test_reports_unmet_limits(fact: dict[str, Any], words: str) -> None:
    needed = plan_for(NULL_GPU).requirements
    (reason,) = needed.unmet(replace(NULL_GPU, **fact))
    assert words in reason
    assert needed.undecided(replace(NULL_GPU, **fact)) == ()


def test_versions_are_compared_as_numbers() -> None:
    needed = Requirements(language_version="3.0")
    assert needed.unmet(replace(NULL_GPU, language_version="10.1")) == ()


def test_lists_facts_that_need_a_probe() -> None:
    needed = plan_for(NVIDIA, precision="mixed").requirements
    unknown = replace(LARGE, name="unknown")
    facts = ("matrix_units", "subgroups", "resident", "reaches_host")
    assert needed.undecided(unknown) == facts
    assert len(needed.unmet(unknown)) == 4
    partly_probed = unknown.with_facts({"matrix_units": True, "subgroups": "ptx"})
    assert needed.undecided(partly_probed) == ("resident", "reaches_host")
    # A requirement that is certainly unmet needs no further probes.
    assert needed.undecided(partly_probed.with_facts({"resident": False})) == ()
    assert needed.undecided(replace(unknown, compute_units=16)) == ()
    assert needed.undecided(NVIDIA) == ()


def test_joins_requirements_of_parts() -> None:
    first = Requirements(language_version="10.0", work_group=64, images=(ImageNeed(9, 9, 8),))
    second = Requirements(language_version="3.0", subgroups="khr", images=(ImageNeed(5, 5, 16),))
    both = first.joined(second)
    assert (both.language_version, both.work_group, both.subgroups) == ("10.0", 64, "khr")
    assert both.images == first.images
    assert join_requirements([]) == Requirements()
    wgsl = Requirements(language="wgsl")
    assert join_requirements([wgsl, wgsl]).language == "wgsl"
    plan = plan_for(NULL_GPU)
    assert join_requirements([plan.requirements] * 2) == plan.requirements


@pytest.mark.parametrize("facts", [NULL_GPU, READER, NVIDIA])
def test_requirements_round_trip(facts: DeviceInfo) -> None:
    needed = plan_for(facts, precision="mixed").requirements
    record = requirements_record(needed)
    assert read_requirements({**record, "images": [list(one) for one in needed.images]}) == needed
    assert requirements_record(Requirements()) == {"language": "opencl", "language_version": "1.2"}


@pytest.mark.parametrize(
    "change",
    [
        {"work_group": "256"},
        {"half_arithmetic": 1},
        {"language_version": "late"},
        {"language_version": "1..2"},
        {"something_new": 1},
        {"images": [[1, 2]]},
        {"images": [[1, 2, 0]]},
    ],
)
def test_rejects_invalid_requirements(change: dict[str, Any]) -> None:
    record = {**requirements_record(Requirements()), **change}
    with pytest.raises((TypeError, ValueError, KeyError)):
        read_requirements(record)


# Program text that implies a requirement. Requirements come from kernel trees and must agree.
TEXT_PATTERNS = {
    "matrix_units": ("mma.sync", "cvt.rn.f16x2", "ld.global.nc.L2", "@p ld.global", "shfl.sync.up"),
    "packs_bytes": ("__builtin_ia32",),
    "resident_groups": (".release.gpu",),
    "half_arithmetic": ("cl_khr_fp16",),
    "images": ("image1d_buffer_t",),
    "subgroups": ("shfl.sync.bfly", "sub_group_shuffle"),
    "dot_products": ("vpdpbusd", "dot_4x8packed", "dp4a"),
}


@pytest.mark.parametrize("precision", ["fp32", "mixed", "fp16"])
@pytest.mark.parametrize("graph", [network, int8_layer])
def test_requirements_agree_with_the_program_text(
    graph: Callable[[], Graph], precision: str
) -> None:
    for facts in (NULL_GPU, CPU, X86, EXTENDED, READER, TENSOR_CORES, NVIDIA):
        for form in ("auto", "list", "one"):
            plan = plan_for(facts, graph(), precision=precision, form=form)
            for name, patterns in TEXT_PATTERNS.items():
                appears = any(pattern in plan.program.text for pattern in patterns)
                assert bool(getattr(plan.requirements, name)) == appears, (facts.name, form, name)
