"""Default kernels of convolutions, and the scratch memory that two kernels of one node share."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
from fake_devices import target_of
from random_graphs import build

from fourfold.backends.null import NULL_GPU
from fourfold.codegen.context import KernelOptions, NodeContext
from fourfold.compiler.lower import make_plan
from fourfold.compiler.lower.kernels import KernelChoice, choose_kernel, node_contexts
from fourfold.compiler.lower.locations import choose_locations
from fourfold.compiler.tune.search import Known, searches
from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.ops.kernels.winograd.forms import TRANSFORMS, Form, transform_filters

CPU = replace(NULL_GPU, kind="cpu", compute_units=2)


def graph(image: str, weights: str, attributes: str = "") -> Graph:
    return build(
        f"""
        input x: f32{image}
        const w: f32{weights}
        a = relu(x)
        b = conv2d(a, w; {attributes})
        c = relu(b)
        output c
        """
    )


def site_of(item: Graph, device: DeviceInfo, options: KernelOptions | None = None) -> NodeContext:
    options = options or KernelOptions()
    every = node_contexts(item, choose_locations(item, options), target_of(device, options))
    return next(context for context in every if context.node.op == "conv2d")


def way_of(item: Graph, device: DeviceInfo, options: KernelOptions | None = None) -> str:
    way = choose_kernel(site_of(item, device, options), {})
    assert isinstance(way, KernelChoice)
    return way.variant.name


SAME = "padding=Padding(1,1,1,1)"
DEEP = graph("[1,28,28,128]", "[128,3,3,128]", SAME)


def test_cpu_uses_winograd_and_gpu_only_if_tuned() -> None:
    assert way_of(DEEP, CPU) == "winograd"
    assert way_of(DEEP, NULL_GPU) == "tiled"
    assert way_of(DEEP, replace(NULL_GPU, matrix_units=True), KernelOptions("mixed")) == "matrix"
    assert way_of(DEEP, CPU, KernelOptions("fp16")) == "padded"


@pytest.mark.parametrize(
    ("image", "weights", "attributes", "way"),
    [
        ("[1,56,56,64]", "[64,3,3,64]", "stride=(2,2), padding=Padding(0,1,0,1)", "padded"),
        ("[1,7,7,16]", "[16,5,5,16]", "padding=Padding(2,2,2,2)", "padded"),
        ("[1,9,9,16]", "[16,3,3,16]", "dilation=(2,2)", "tiled"),
        ("[1,20,200,16]", "[16,5,5,16]", "padding=Padding(2,2,2,2)", "tiled"),
        ("[1,7,7,16]", "[16,1,1,16]", "", "tiled"),
        ("[1,7,7,16]", "[16,3,3,8]", f"{SAME}, groups=2", "direct"),
        ("[1,1,1,512]", "[512,3,3,512]", SAME, "padded"),
    ],
)
def test_default_kernels(image: str, weights: str, attributes: str, way: str) -> None:
    assert way_of(graph(image, weights, attributes), CPU) == way


def test_winograd_tile_equals_definition() -> None:
    random = np.random.default_rng(2)
    for size, transforms in TRANSFORMS.items():
        inputs, filters = random.normal(size=(size + 2, size + 2)), random.normal(size=(1, 3, 3, 1))
        before, after = (
            reduce(np.matmul, map(np.array, factors))
            for factors in (transforms.input, transforms.output)
        )
        products = transform_filters(filters, size).reshape(size + 2, size + 2)
        products = products * (before @ inputs @ before.T)
        windows = np.lib.stride_tricks.sliding_window_view(inputs, (3, 3))
        expected = np.einsum("yxhw,hw->yx", windows, filters[0, :, :, 0])
        np.testing.assert_allclose(after @ products @ after.T, expected, atol=1e-5)


def ways_of(item: Graph, device: DeviceInfo, limit: int) -> list[str]:
    (search,) = [
        s
        for s in searches(item, device, KernelOptions(), Known({}, {}), limit)
        if s.key.startswith("conv")
    ]
    return [str(way) for way in search.candidates]


@pytest.mark.parametrize("facts", [CPU, NULL_GPU])
def test_a_search_begins_with_the_best_of_each_variant(facts: DeviceInfo) -> None:
    few = {way.partition(":")[0] for way in ways_of(DEEP, facts, 4)}
    assert few == ({"winograd", "padded", "tiled"} if facts is CPU else {"winograd", "tiled"})


@pytest.mark.parametrize("facts", [CPU, NULL_GPU])
def test_forms_read_back(facts: DeviceInfo) -> None:
    texts = [w.partition(": ")[2] for w in ways_of(DEEP, facts, 99) if w.startswith("winograd")]
    forms = [Form.parse(text) for text in texts if text != "default"]
    assert [str(form) for form in forms] == [text for text in texts if text != "default"]
    assert len(forms) >= 4


@pytest.mark.parametrize("choice", ["nonsense", "F3 apart 6x2x8 split 1 in 1x1", "F4 apart 6x2"])
def test_a_bad_form_falls_back_to_the_default(choice: str) -> None:
    context = site_of(DEEP, CPU)
    plain, odd = (
        make_plan(DEEP, CPU, KernelOptions(), c) for c in ({}, {context.key: f"winograd: {choice}"})
    )
    assert plain.program == odd.program


def test_scratch_memory_lives_as_long_as_its_kernels() -> None:
    """The copy of 18 x 18 pixels overwrites nothing that is still to be read."""
    item = graph("[1,16,16,8]", "[8,5,5,8]", "padding=Padding(2,2,2,2)")
    plan = make_plan(item, CPU, KernelOptions(form="list"))
    relu, pad, convolution = plan.launches[:3]
    assert [launch.title for launch in (relu, pad, convolution)][1:] == [
        "pad_input",
        "conv2d_tiled",
    ]
    value, copy, result = 16 * 16 * 8 * 4, 20 * 20 * 8 * 4, 16 * 16 * 8 * 4
    assert plan.bytes("arena") == copy + max(value, result)


def test_scratch_names_are_unique() -> None:
    item = build(
        """
        input x: f32[1,16,16,8]
        const w: f32[8,5,5,8]
        b/padded = relu(x)
        b = conv2d(b/padded, w; padding=Padding(2,2,2,2))
        c = relu(b)
        output c
        """
    )
    plain = graph("[1,16,16,8]", "[8,5,5,8]", "padding=Padding(2,2,2,2)")
    sizes = [
        make_plan(one, CPU, KernelOptions(form="list")).bytes("arena") for one in (item, plain)
    ]
    assert sizes[0] == sizes[1]
