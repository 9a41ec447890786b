"""A plan that builds quickly: y = a * x + b over sixteen numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fourfold.plan import (
    Buffer,
    BufferUse,
    CompiledModel,
    Launch,
    Plan,
    Port,
    Program,
    Requirements,
)
from fourfold.types import DType, Quantization, TensorType

COUNT = 16
TEXT = """
__kernel void line(__global const float *x, long x_at, __global const float *c, long c_at,
                   __global float *y, long y_at, int count)
{
    int i = get_global_id(0);
    if (i < count) y[y_at + i] = c[c_at] * x[x_at + i] + c[c_at + 1];
}
"""
X = np.arange(COUNT, dtype=np.float32)


def line(
    a: float = 2.0, b: float = 1.0, choices: dict[str, str | None] | None = None
) -> CompiledModel:
    """Return the plan for given constants."""
    constants = np.zeros(64, np.uint8)
    constants[:8] = np.array([a, b], np.float32).view(np.uint8)
    kind = TensorType(DType.F32, (COUNT,))
    buffers = (
        Buffer("arena", "arena", 0),
        Buffer("constants", "constants", 64),
        Buffer("x", "input", 4 * COUNT),
        Buffer("y", "output", 4 * COUNT),
    )
    arguments = (BufferUse(2, 0), BufferUse(1, 0), BufferUse(3, 0), COUNT)
    plan = Plan(
        name="main",
        program=Program(TEXT, "-cl-std=CL1.2"),
        buffers=buffers,
        launches=(Launch("line", arguments, (COUNT,), (1,), "line", "y = line(x)"),),
        inputs=(Port("x", kind, 2),),
        outputs=(Port("y", kind, 3, Quantization((0.5,), (3,))),),
        constants=constants,
        precision="fp32",
        requirements=Requirements(buffer_bytes=4 * COUNT, alignment=8),
    )
    return CompiledModel.of_plan(plan, ("the x",), ("the y",), choices or {})


def with_plan(model: CompiledModel, plan: Plan) -> CompiledModel:
    """Return the model with another plan as its only part."""
    (part,) = model.parts
    return replace(model, parts=(part._replace(plan=plan),))
