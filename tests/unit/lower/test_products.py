"""Which models wait for memory, and what that makes of half precision."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_devices import target_of
from random_graphs import build

from fourfold.compile.pipeline import prepare_lowering
from fourfold.graph import Graph
from fourfold.kernel.context import KernelOptions
from fourfold.lower.locations import choose_locations
from fourfold.lower.products import multiplies_little
from fourfold.lower.specialise import specialise_target
from fourfold.options import CompileOptions
from fourfold.players.null import NULL_GPU

WAITING = KernelOptions("fp16", waits_for_memory=True)
OPS = {
    # Each has 1 / (1 / inputs + 1 / outputs) products or so for a number, beside many pixels.
    "conv2d(x, w)": ("f32[1,61,59,{0}]", "f32[{0},1,1,{0}]"),
    "fully_connected(x, w)": ("f32[6007,{0}]", "f32[{0},{0}]"),
    "batch_matmul(x, w)": ("f32[1,6007,{0}]", "f32[1,{0},{0}]"),
    "transpose_conv2d(x, w; stride=(1,1), size=(61,59), padding=Padding(0,0,0,0))": (
        "f32[1,61,59,{0}]",
        "f32[{0},1,1,{0}]",
    ),
}


def products(op: str, channels: int) -> Graph:
    x, w = (text.format(channels) for text in OPS[op])
    return build(f"input x: {x}\nconst w: {w}\ny = {op}\noutput y")


@pytest.mark.parametrize("op", OPS)
def test_few_channels_are_few_products(op: str) -> None:
    assert multiplies_little(products(op, 29))
    assert not multiplies_little(products(op, 37))


def test_what_is_read_once_waits_for_memory() -> None:
    """One row times a matrix, however large; and a filter for each channel."""
    rows = "input x: f32[1,997]\nconst w: f32[991,997]\ny = fully_connected(x, w)\noutput y"
    filters = """
        input x: f32[1,61,59,991]
        const w: f32[1,3,3,991]
        y = depthwise_conv2d(x, w)
        output y
    """
    assert multiplies_little(build(rows))
    assert multiplies_little(build(filters))


def test_views_move_nothing() -> None:
    graph = products("conv2d(x, w)", 37)
    views = "\n".join(f"v{n} = reshape(y; shape=(1,{61 * 59},37))" for n in range(9))
    text = f"""
        input x: f32[1,61,59,37]
        const w: f32[37,1,1,37]
        y = conv2d(x, w)
        {views}
        output y
    """
    assert multiplies_little(build(text)) == multiplies_little(graph)


@pytest.mark.parametrize(("channels", "precision"), [(29, "mixed"), (37, "fp16")])
def test_what_waits_for_memory_computes_in_floats(channels: int, precision: str) -> None:
    graph, asked = products("conv2d(x, w)", channels), CompileOptions(precision="fp16")
    assert prepare_lowering(graph, NULL_GPU, asked).plan().precision == precision


def test_large_values_stay_short_there() -> None:
    graph = build(
        """
        input x: f32[1,61,59,41]
        y = relu(x)
        z = transpose(y; permutation=(0,2,1,3))
        a = reduce_max(z; axes=(1,), keep_dims=True)
        b = tanh(a)
        output b
        """
    )
    kinds = {}
    for units in (False, True):
        device = replace(NULL_GPU, matrix_units=units)
        options = specialise_target(graph, target_of(device, WAITING)).options
        places = choose_locations(graph, options)
        kinds[units] = " ".join(places[name].dtype.value for name in "yza")
    assert kinds == {False: "f16 f16 f32", True: "f32 f32 f32"}
