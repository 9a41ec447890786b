"""The OpenCL renderer: readable, deterministic, no repeated computation, guards kept."""

from __future__ import annotations

from fourfold.codegen import expression as e
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.location import Layout, Stored, own_location
from fourfold.codegen.opencl.language import LANGUAGE
from fourfold.codegen.view import View
from fourfold.types import DType, TensorType


def doubled(literal: bool = False) -> Kernel:
    kernel = Kernel("double", literal)
    type_ = TensorType.parse("f32[5,8]")
    views = []
    for title in ("src", "dst"):
        place = own_location(title, Layout.SLICED, type_, Stored(DType.F32))
        pointer = kernel.pointer(title, DType.F32, place, writable=title == "dst")
        views.append(View(kernel, pointer, type_, place))
    pixel, slice_ = kernel.ids(5, 2)
    views[1].store(pixel, slice_, views[0].load(pixel, slice_) * 2)
    return kernel


def test_the_whole_text() -> None:
    assert LANGUAGE.render(doubled(), "double_0") == (
        "// double\n"
        "__kernel void double_0(\n"
        "    __global const float *restrict src_base,\n"
        "    long src_at,\n"
        "    __global float *restrict dst_base,\n"
        "    long dst_at,\n"
        "    int src_pitch,\n"
        "    int dst_pitch)\n"
        "{\n"
        "    __global const float *src = src_base + src_at;\n"
        "    __global float *dst = dst_base + dst_at;\n"
        "    __global const float4 *src_4 = (__global const float4 *)src;\n"
        "    __global float4 *dst_4 = (__global float4 *)dst;\n"
        "    const int x = get_global_id(0);\n"
        "    const int y = get_global_id(1);\n"
        "    const float4 src_v = src_4[y * src_pitch + x];\n"
        "    dst_4[y * dst_pitch + x] = src_v * (float4)(2.0f);\n"
        "}\n"
    )


def test_floats_go_through_pointers_to_fp16_vectors() -> None:
    """The functions that round take a plain pointer, whatever the pointer's vector width."""
    kernel = Kernel("halves", literal=True, real="half")
    some = kernel.pointer("some", DType.F16, None, writable=True)
    (x,) = kernel.ids(5)
    near = kernel.shifted(some, x * 3, 4, "near")
    kernel.store(near, 1, e.load(near, 2, "float", 4))
    kernel.store(near, 0, e.load(near, 3, "half", 4))
    text = LANGUAGE.render(kernel, "halves_0")
    assert "vloada_half4(2, (__global half *)near)" in text
    assert ", 1, (__global half *)near)" in text
    assert "near[0] = near[3]" in text


def test_reads_images() -> None:
    kernel = Kernel("by_image", literal=True)
    some = kernel.pointer("some", DType.F16, None)
    out = kernel.pointer("out", DType.F32, None, writable=True)
    (x,) = kernel.ids(5)
    value = e.load(some, x + 1, "float", 8)
    kernel.store(out, x, value.part(1, 4) + e.load(some, x * 3, "float", 4))
    text = LANGUAGE.render(kernel, "by_image_0", frozenset({"some"}))
    assert "    __read_only image1d_buffer_t some,\n    int some_at,\n" in text
    assert "read_imagef(some, some_at + x * 3)" in text
    both = "read_imagef(some, some_at + 2 * (x + 1)), read_imagef(some, some_at + 2 * (x + 1) + 1)"
    assert f"(float8)({both}).s4567" in text
    assert "half" not in text
    assert "image" not in LANGUAGE.render(kernel, "plain_0").replace("by_image", "")


def test_sizes_may_be_literals() -> None:
    kernel = doubled(literal=True)
    assert kernel.sizes == {}
    assert "y * 5 + x" in LANGUAGE.render(kernel, "double_0")


def test_the_same_kernel_gives_the_same_text() -> None:
    assert LANGUAGE.render(doubled(), "k") == LANGUAGE.render(doubled(), "k")


def test_shared_expression_is_computed_once() -> None:
    kernel = Kernel("twice", literal=True)
    x = e.name("x", "float")
    part = e.exp(x)
    kernel.variable(part * part, "v")
    text = LANGUAGE.render(kernel, "k")
    assert text.count("exp(x)") == 1


def test_guarded_expression_is_not_hoisted() -> None:
    kernel = Kernel("guard", literal=True)
    pointer = kernel.pointer("src", DType.F32, None)
    value = e.load(pointer, e.name("i", "int"), "float")
    kernel.let(e.guarded(e.name("i", "int") < 3, value + value), "v")
    assert "const float v = i < 3 ? src[i] + src[i] : 0.0f;" in LANGUAGE.render(kernel, "k")


def test_loop_with_one_iteration_is_inlined() -> None:
    kernel = Kernel("loop", literal=True)
    with kernel.loop(1) as i:
        kernel.variable(i + 2, "v")
    text = LANGUAGE.render(kernel, "k")
    assert "for" not in text
    assert "int v = 2;" in text


def test_truth_in_vectors_is_all_bits() -> None:
    kernel = Kernel("truth", literal=True)
    lanes = [e.name(f"i{n}", "int") < 3 for n in range(4)]
    kernel.let(e.where(e.vector(*lanes), e.const(1.0, "float", 4), 0.0), "v")
    assert "!= (int4)(0)" in LANGUAGE.render(kernel, "k")


def test_literals_with_special_spelling() -> None:
    kernel = Kernel("numbers", literal=True)
    for value in (float("inf"), float("-inf"), float("nan"), 1e30):
        kernel.variable(e.const(value), "v")
    kernel.variable(e.const(-(2**31)), "v")
    text = LANGUAGE.render(kernel, "k")
    for spelled in ("= INFINITY;", "= -INFINITY;", "= NAN;", "= 1e+30f;", "= INT_MIN;"):
        assert spelled in text


def test_memory_of_one_work_item_is_declared_before_it_is_used() -> None:
    kernel = Kernel("hold", literal=True)
    place = own_location("dst", Layout.ROWS, TensorType.parse("f32[8]"), Stored(DType.F32))
    target = kernel.pointer("dst", DType.F32, place, writable=True)
    held = kernel.private_array("held", DType.F32, 8)
    near = kernel.shifted(held, e.const(1), 4, "near")
    kernel.store(held, 0, e.const(1.0, "float", 4))
    kernel.store(target, 0, e.load(near, 0, "float", 4))
    lines = [line.strip() for line in LANGUAGE.render(kernel, "hold_0").splitlines()]
    declared = lines.index("float held[8] __attribute__((aligned(64)));")
    assert lines.index("float4 *held_4 = (float4 *)held;") > declared
    assert "float4 *near = held_4 + 1;" in lines
