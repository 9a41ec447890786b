"""The number of rows per work-item of the depthwise convolution."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_devices import target_of
from random_graphs import build

from fourfold.backends.null import NULL_GPU
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower.kernels import node_contexts
from fourfold.compiler.lower.locations import choose_locations
from fourfold.ops.depthwise_conv2d import choices

CPU = replace(NULL_GPU, kind="cpu", compute_units=2)


def row_choices(size: int, attributes: str = "") -> list[str]:
    graph = build(
        f"input x: f32[1,{size},{size},8]\nconst w: f32[1,3,3,8]\n"
        f"y = depthwise_conv2d(x, w; padding=Padding(1,1,1,1){attributes})\noutput y\n"
    )
    locations = choose_locations(graph, KernelOptions())
    return choices(next(iter(node_contexts(graph, locations, target_of(CPU)))))


@pytest.mark.parametrize(("size", "rows"), [(1, 1), (5, 5), (7, 7), (14, 7), (28, 7), (112, 4)])
def test_rows_divide_the_height_and_fit_the_l1_cache(size: int, rows: int) -> None:
    assert row_choices(size)[0] == f"{rows} rows"


@pytest.mark.parametrize("size", [1, 2, 3, 11, 37])
def test_row_counts_are_unique_choices(size: int) -> None:
    expected = {f"{rows} rows" for rows in range(1, min(8, size) + 1)}
    result = row_choices(size)
    assert set(result) == expected
    assert len(result) == len(expected)
