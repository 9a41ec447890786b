"""Small programs that probe what a device supports; each entry point computes 3 x + 1."""

from __future__ import annotations

from fourfold.device import LOOP_SELF_TEST
from fourfold.plan import Program

GROUP = 64  # work-items per group of the probes
BUSY_GROUP = 256  # work-items per group of the probe that only keeps compute units busy
ROUNDS = 33000  # three times this exceeds what some devices execute in all loops of a work-item
_SIZES = """struct Sizes { src_at: i32, dst_at: i32, count: i32 }
@group(0) @binding(0) var<uniform> sizes: Sizes;
"""
_WORDS = f"""{_SIZES}@group(0) @binding(1) var<storage, read> src: array<u32>;
@group(0) @binding(2) var<storage, read_write> dst: array<u32>;
"""
_HEAD = f"""@compute @workgroup_size({GROUP})
fn probe(@builtin(global_invocation_id) id: vec3<u32>) {{
  let i = i32(id.x);
  if (i >= sizes.count) {{ return; }}
"""

# Test a vector of floats, two halves in a word, and a byte whose neighbours others write.
_FLOATS = f"""//# probe r0 w1
{_SIZES}@group(0) @binding(1) var<storage, read> src: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> dst: array<vec4<u32>>;
{_HEAD}  let x = bitcast<vec4<f32>>(src[i]);
  dst[i] = bitcast<vec4<u32>>(x * 3.0f + 1.0f);
}}
"""
_HALVES = f"""//# probe r0 w1
{_WORDS}{_HEAD}  dst[i] = pack2x16float(unpack2x16float(src[i]) * 3.0f + 1.0f);
}}
"""
_BYTES = f"""//# probe r0 w1
{_SIZES}@group(0) @binding(1) var<storage, read> src: array<u32>;
@group(0) @binding(2) var<storage, read_write> dst: array<atomic<u32>>;
{_HEAD}  let shift = 8u * (id.x % 4u);
  let value = (src[i / 4] >> shift & 255u) * 3u + 1u;
  atomicAnd(&dst[i / 4], ~(255u << shift));
  atomicOr(&dst[i / 4], (value & 255u) << shift);
}}
"""
# A long loop, which adds its input to one, three times.
_LOOPS = f"""//# probe r0 w1
{_WORDS}{_HEAD}  var sum = 1u;
  for (var k = 0; k < 3 * {ROUNDS}; k += 1) {{
    sum += select(0u, src[i], k % {ROUNDS} == {ROUNDS} - 1);
  }}
  dst[i] = sum;
}}
"""
# Everything that fp16 kernels use: vectors, comparisons, conversions, functions.
_HALF_ARITHMETIC = f"""//# probe r0 w1
enable f16;
{_WORDS}{_HEAD}  let x = vec4<f16>(vec4<f32>(unpack2x16float(src[i]), 0.0f, 1.0f));
  let y = fma(x, vec4<f16>(3.0h), vec4<f16>(1.0h)) + exp(x) - exp(x);
  let z = select(x, y, y >= x);
  dst[i] = pack2x16float(vec4<f32>(z).xy);
}}
"""
# Work for the compute units without memory traffic: independent chains of products, unrolled,
# because compute units idle while they branch.
_STEPS = "    a = a * 0.999f + b * 1e-3f;\n    b = b * 0.998f + 1e-3f;\n" * 16
_BUSY = f"""//# probe w0
struct Sizes {{ dst_at: i32, count: i32 }}
@group(0) @binding(0) var<uniform> sizes: Sizes;
@group(0) @binding(1) var<storage, read_write> dst: array<u32>;
@compute @workgroup_size({BUSY_GROUP})
fn probe(@builtin(global_invocation_id) id: vec3<u32>) {{
  let x = f32(id.x) * 1e-9f;
  var a = vec4<f32>(x, x + 1.0f, x + 2.0f, x + 3.0f);
  var b = a + 4.0f;
  for (var i = 0; i < sizes.count; i += 1) {{
{_STEPS}  }}
  let sum = a + b;
  if (sum.x + sum.y + sum.z + sum.w == -1.0f) {{ dst[0] = 1u; }}
}}
"""

SELF_TEST = {
    "floats": Program(_FLOATS, ""),
    "halves": Program(_HALVES, ""),
    "bytes": Program(_BYTES, ""),
    LOOP_SELF_TEST: Program(_LOOPS, ""),
}
HALF_ARITHMETIC = Program(_HALF_ARITHMETIC, "")
BUSY = Program(_BUSY, "")
