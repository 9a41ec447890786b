"""Memory-bound models, and where fp16 models compute in fp32."""

from __future__ import annotations

from dataclasses import replace

import pytest
from random_graphs import build

from fourfold.backends.null import NULL_GPU
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower.specialise import is_memory_bound
from fourfold.compiler.pipeline import LoweringInput
from fourfold.graph import Graph
from fourfold.options import CompileOptions

OPS = {
    # Each has about 1 / (1 / inputs + 1 / outputs) products per number, for many pixels.
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
    assert is_memory_bound(products(op, 7))
    assert not is_memory_bound(products(op, 11))


def test_one_row_is_memory_bound() -> None:
    rows = "input x: f32[1,997]\nconst w: f32[991,997]\ny = fully_connected(x, w)\noutput y"
    assert is_memory_bound(build(rows))


@pytest.mark.parametrize(("size", "little"), [(2, True), (3, False)])
def test_a_filter_for_each_channel(size: int, little: bool) -> None:
    text = f"""
        input x: f32[1,61,59,991]
        const w: f32[1,{size},{size},991]
        y = depthwise_conv2d(x, w)
        output y
    """
    assert is_memory_bound(build(text)) == little


def test_views_move_nothing() -> None:
    graph = products("conv2d(x, w)", 11)
    views = "\n".join(f"v{n} = reshape(y; shape=(1,{61 * 59},11))" for n in range(9))
    text = f"""
        input x: f32[1,61,59,11]
        const w: f32[11,1,1,11]
        y = conv2d(x, w)
        {views}
        output y
    """
    assert is_memory_bound(build(text)) == is_memory_bound(graph)


@pytest.mark.parametrize(
    ("channels", "matrix_units", "precision"),
    [(7, False, "mixed"), (11, False, "fp16"), (7, True, "mixed"), (211, True, "mixed")],
)
def test_where_floats_are_as_fast(channels: int, matrix_units: bool, precision: str) -> None:
    graph, asked = products("conv2d(x, w)", channels), CompileOptions(precision="fp16")
    device = replace(NULL_GPU, matrix_units=matrix_units)
    lowering = LoweringInput(graph, device, KernelOptions()).with_compile_options(asked)
    assert lowering.plan().precision == precision
