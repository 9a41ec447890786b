"""Storage of values: ops that join or pick bytes produce bytes."""

from __future__ import annotations

import pytest
from random_graphs import build

from fourfold.codegen.context import KernelOptions
from fourfold.codegen.location import Stored
from fourfold.compiler.lower.storage import Storage
from fourfold.types import DType

TEXT = """
    input x: f32[1,4,6,8]
    const i: i32[3]
    const w: f32[5,1,1,{channels}]
    a = fake_quantize(x; scale=0.5, low=-9, high=100, step=1.0)
    b = fake_quantize(x; scale=0.25, low={low}, high=100, step=1.0)
    {}
    y = {reader}
    output y
"""
BYTES = Stored(DType.U8, 1.0, 9)


MADE = {
    "concat": ("c = concat(a, b; axis=3)", 16),
    "gather": ("c = gather(a, i; axis=3)", 3),
    "reshape": (
        """r = reshape(a; shape=(1,24,1,8))
    c = gather(r, i; axis=1)""",
        8,
    ),
    "pad": ("c = pad(a; before=(0,1,1,0), after=(0,1,1,0), value=0.0)", 8),
}


def stored(made: str, low: int = -9, reader: str = "conv2d(c, w)", counts: bool = True) -> Stored:
    text, channels = MADE[made]
    graph = build(TEXT.format(text, low=low, channels=channels, reader=reader))
    return Storage(graph, KernelOptions(counts_bytes=counts)).of("c")


@pytest.mark.parametrize("made", MADE)
def test_bytes_stay_bytes(made: str) -> None:
    assert stored(made) == BYTES
    assert stored(made, counts=False) == Stored(DType.F32)


def test_bytes_with_other_zero_points_are_not_joined() -> None:
    assert stored("concat", low=-7) == Stored(DType.F32)


@pytest.mark.parametrize("made", ["concat", "gather"])
def test_values_that_are_not_multiplied_stay_floats(made: str) -> None:
    assert stored(made, reader="tanh(c)") == Stored(DType.F32)
