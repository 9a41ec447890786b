"""Precision of a graph, derived from the requested one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_devices import target_of
from random_graphs import build

from fourfold.backends.null import NULL_GPU
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower.specialise import specialise_target

IN_FLOATS = {
    "steps": """
        input x: f32[1,5,7,11]
        y = fake_quantize(x; scale=0.5, low=-9, high=100, step=1.0)
        z = tanh(y)
        output z
    """,
    "mask": """
        input x: f32[1,5,7,11]
        const large: f32[] = -1e9
        y = add(x, large)
        z = softmax(y)
        output z
    """,
}


@pytest.mark.parametrize("matrix_units", [False, True])
@pytest.mark.parametrize("text", IN_FLOATS.values(), ids=IN_FLOATS)
def test_values_beyond_fp16_range_use_mixed_precision(text: str, matrix_units: bool) -> None:
    """Small values keep fp32, too."""
    graph, device = build(text), replace(NULL_GPU, matrix_units=matrix_units)
    half, mixed = (
        specialise_target(graph, target_of(device, KernelOptions(precision)))
        for precision in ("fp16", "mixed")
    )
    assert half.options.precision == "mixed"
    assert half.options.keeps_values
    assert half == mixed
