"""Tiny WGSL plans that compile at once, as prepared files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fourfold.backends import find_target
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
from fourfold.store.draft import Draft
from fourfold.types import Quantization, TensorType

COUNT = 16
COPY = """//# copy r0 w1
struct Sizes { x_at: i32, y_at: i32, count: i32 }
@group(0) @binding(0) var<uniform> sizes: Sizes;
@group(0) @binding(1) var<storage, read> x: array<u32>;
@group(0) @binding(2) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(64)
fn copy(@builtin(global_invocation_id) id: vec3u) {
  let i = i32(id.x);
  if (i < sizes.count) { y[sizes.y_at + i] = x[sizes.x_at + i]; }
}
"""
LINE = """//# line r0 r1 w2
struct Sizes { x_at: i32, c_at: i32, y_at: i32, count: i32 }
@group(0) @binding(0) var<uniform> sizes: Sizes;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> c: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1)
fn line(@builtin(global_invocation_id) id: vec3u) {
  let i = i32(id.x);
  y[sizes.y_at + i] = c[sizes.c_at] * x[sizes.x_at + i] + c[sizes.c_at + 1];
}
"""
SUM = """//# total r0 w1
struct Sizes { x_at: i32, total_at: i32 }
@group(0) @binding(0) var<uniform> sizes: Sizes;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> total: array<f32>;
@compute @workgroup_size(1)
fn total(@builtin(global_invocation_id) id: vec3u) {
  total_[sizes.total_at] += x[sizes.x_at];
}
""".replace("total: array", "total_: array")


def make_plan(
    text: str,
    buffers: tuple[Buffer, ...],
    launches: tuple[Launch, ...],
    ports: tuple[Port, Port],
    constants: np.ndarray,
) -> CompiledModel:
    plan = Plan(
        name="main",
        program=Program(text, ""),
        buffers=(
            Buffer("arena", "arena", 0),
            Buffer("constants", "constants", constants.nbytes),
            *buffers,
        ),
        launches=launches,
        inputs=ports[:1],
        outputs=ports[1:],
        constants=constants,
        precision="fp32",
        requirements=Requirements("wgsl", "1.0", work_group=64, buffer_bytes=4096),
    )
    return CompiledModel.of_plan(plan, ("x",), ("y",))


def copy_plan(kind: str, how: Quantization | None = None) -> CompiledModel:
    """Return a plan that copies its input."""
    type_ = TensorType.parse(kind)
    words = -(-type_.bytes // 4)
    ports = (Port("x", type_, 2, how), Port("y", type_, 3, how))
    buffers = (Buffer("x", "input", type_.bytes), Buffer("y", "output", type_.bytes))
    arguments = (BufferUse(2, 0), BufferUse(3, 0), words)
    launch = Launch("copy", arguments, (-(-words // 64) * 64,), (64,), "copy", "y = x")
    return make_plan(COPY, buffers, (launch,), ports, np.zeros(64, np.uint8))


def line_plan() -> CompiledModel:
    """Return y = 2 x + 1, applied twice to sixteen numbers, with a value in between."""
    constants = np.zeros(64, np.uint8)
    constants[:8] = np.array([2, 1], np.float32).view(np.uint8)
    type_ = TensorType.parse(f"f32[{COUNT}]")
    ports = (Port("x", type_, 2), Port("y", type_, 3))
    sizes = (("x", "input"), ("y", "output"), ("between", "arena"))
    buffers = tuple(Buffer(name, kind, 4 * COUNT) for name, kind in sizes)
    launches = tuple(
        Launch(
            "line",
            (BufferUse(first, 0), BufferUse(1, 0), BufferUse(second, 0), COUNT),
            (COUNT,),
            (1,),
            "line",
            "",
        )
        for first, second in ((2, 4), (4, 3))
    )
    return make_plan(LINE, buffers, launches, ports, constants)


def counting_plan() -> CompiledModel:
    """Return y = the sum of all x so far; the state starts at 5."""
    constants = np.zeros(64, np.uint8)
    constants[:4] = np.array([5], np.float32).view(np.uint8)
    type_ = TensorType.parse("f32[1]")
    ports = (Port("x", type_, 2), Port("y", type_, 3))
    buffers = (
        Buffer("x", "input", 4),
        Buffer("y", "output", 4),
        Buffer("sum", "variable", 4, 0),
    )
    launches = (
        Launch("total", (BufferUse(2, 0), BufferUse(4, 0)), (1,), (1,), "total", ""),
        Launch("copy", (BufferUse(4, 0), BufferUse(3, 0), 1), (64,), (64,), "copy", ""),
    )
    return make_plan(SUM + COPY, buffers, launches, ports, constants)


def write_prepared(path: Path, *plans: CompiledModel, filler: int = 0) -> Path:
    """Write a prepared file with a model for each plan, after `filler` additional bytes."""
    draft = Draft()
    device = find_target("webgpu:any")
    for number, compiled in enumerate(plans):
        draft.add_compiled(draft.add_model(f"model{number}", str(number), 1), device, compiled, {})
    if filler:
        draft.add_binary({"text": "of somebody else"}, bytes(filler))
    draft.write(path)
    return path
