"""No large grid of a GPU is launched with tiny work-groups: each has at least a warp.

The cases of the ops are small, so they are extended along their first axis if the op permits it,
and some ops have additional long cases here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import pytest
from fake_devices import EXTENDED, IMAGES, LARGE
from model_collection import TFLITE, at_hand
from op_inputs import case_graph
from op_kernels import WITH_KERNELS
from ops.test_dots import GRIDS, network
from random_graphs import build

from fourfold.backends.null import NULL_GPU
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.errors import ModelError, UnsupportedError
from fourfold.formats import read_model
from fourfold.graph import Graph
from fourfold.ops.base import Case, Op, registry
from fourfold.plan import Launch
from fourfold.types import TensorType

DEVICES = {"plain": NULL_GPU, "large": LARGE, "extended": EXTENDED, "images": IMAGES}
MODELS = ("pnet", "basic_pitch", "kws_ref_model", "vww_96_int8", "mobilenet_v1_025_224_float")
LONGER = 211
WARP, MANY = 32, 1024  # minimum work-items per group, and work-items of a large grid
LONG = {
    "softmax of pairs": "y = softmax(x)",
    "log_softmax": "y = log_softmax(x)",
    "l2_normalize": "y = l2_normalize(x)",
    "mean of rows": "y = mean(x; axes=(1,), keep_dims=True)",
    "sum of channels": "y = sum(x; axes=(2,), keep_dims=True)",
    "top": "y = top_indices(x; count=1)",
    "cumsum along pixels": "y = cumsum(x; axis=1)",
    "cumsum along channels": "y = cumsum(x; axis=2)",
    "products": "const w: f32[301,{channels}]\ny = fully_connected(x, w)",
    "a product of values": "input w: f32[{images},8193,{channels}]\n"
    "y = batch_matmul(x, w; transposed=True)",
    "few columns": "const w: f32[2,{channels}]\ny = fully_connected(x, w)",
}
SHAPES = [(30011, 1, 2), (1, 30011, 2), (3, 997, 37), (2999, 9, 40), (2, 3, 9001), (5, 7, 1030)]


def tiny(launches: tuple[Launch, ...]) -> list[str]:
    return [
        f"{launch.title}: {launch.grid} in {launch.local}"
        for launch in launches
        if prod(launch.grid) >= MANY and prod(launch.local) < WARP
    ]


def longer(op: Op, case: Case) -> Case | None:
    """Return the case with `times` times as many images, rows or other items along the first
    axis.
    """
    types = [None if text is None else TensorType.parse(text) for text in case.inputs]
    first = types[0]
    if first is None or not first.rank:
        return None
    inputs = []
    for number, type_ in enumerate(types):
        grows = type_ is not None and number not in case.constants and type_.rank == first.rank
        if grows and type_ is not None and type_.shape[0] == first.shape[0]:
            type_ = type_.with_shape(type_.shape[0] * LONGER, *type_.shape[1:])
        inputs.append(None if type_ is None else str(type_))
    grown = replace(case, inputs=tuple(inputs))
    try:
        case_graph(op, (grown,))
    except ModelError:
        return None
    return grown


def launches_of(graph: Graph, device: DeviceInfo) -> tuple[Launch, ...]:
    try:
        return make_plan(rewrite(graph), device, KernelOptions()).launches
    except UnsupportedError:
        return ()


def op_launches(op: Op, device: DeviceInfo) -> Iterator[Launch]:
    for case in op.cases:
        grown = longer(op, case)
        if grown is not None:
            yield from launches_of(case_graph(op, (grown,))[0], device)


@pytest.mark.parametrize("like", [NULL_GPU, IMAGES], ids=["plain", "images"])
@pytest.mark.parametrize("name", WITH_KERNELS)
def test_long_cases_of_ops(name: str, like: DeviceInfo) -> None:
    assert not tiny(tuple(op_launches(registry()[name], like)))


def test_most_ops_have_long_cases() -> None:
    """Otherwise this file would check nothing."""
    grown = [
        name
        for name in WITH_KERNELS
        if any(prod(item.grid) >= MANY for item in op_launches(registry()[name], NULL_GPU))
    ]
    assert len(grown) > 0.7 * len(WITH_KERNELS)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("like", DEVICES.values(), ids=DEVICES)
@pytest.mark.parametrize("line", LONG.values(), ids=LONG)
def test_long_and_many_rows(line: str, like: DeviceInfo, shape: tuple[int, int, int]) -> None:
    sizes = ",".join(map(str, shape))
    text = line.format(images=shape[0], channels=shape[2])
    graph = build(f"input x: f32[{sizes}]\n{text}\noutput y")
    result = launches_of(graph, like)
    assert result
    assert not tiny(result)


@pytest.mark.parametrize("channels", [1, 3, 8, 61])
@pytest.mark.parametrize("outputs", [1, 4, 7, 64])
@pytest.mark.parametrize("like", DEVICES.values(), ids=DEVICES)
def test_convolutions(outputs: int, channels: int, like: DeviceInfo) -> None:
    graph = build(
        f"""
        input x: f32[1,97,101,{channels}]
        const a: f32[{outputs},1,1,{channels}]
        const b: f32[{outputs},3,3,{channels}]
        y = conv2d(x, a)
        z = conv2d(x, b)
        output y, z
        """
    )
    assert not tiny(launches_of(graph, like))


@pytest.mark.parametrize("channels", [4, 32])
@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_layers_of_bytes(grid: object, channels: int) -> None:
    assert not tiny(launches_of(network(grid, channels, 5), EXTENDED))


@pytest.mark.parametrize("like", DEVICES.values(), ids=DEVICES)
@pytest.mark.parametrize("name", MODELS)
def test_small_models(name: str, like: DeviceInfo) -> None:
    path = at_hand(TFLITE / f"{name}.tflite")
    assert not tiny(launches_of(read_model(str(path)).main, like))
