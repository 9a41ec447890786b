"""WGSL: text of modules, bindings, and requirements of browsers' compilers."""

from __future__ import annotations

import re

import pytest

from fourfold.codegen.expression import (
    Expression,
    const,
    guarded,
    load,
    local_id,
    minimum,
    vector,
    where,
)
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.stage import folded_launch
from fourfold.codegen.wgsl.bindings import MAX_BINDINGS
from fourfold.codegen.wgsl.language import LANGUAGE
from fourfold.codegen.wgsl.names import identifier, literal
from fourfold.types import DType


def copying(dtype: DType, width: int, kind: str = "float", to: DType | None = None) -> Kernel:
    kernel = Kernel("copy", literal=False)
    src = kernel.pointer("src", dtype, None)
    dst = kernel.pointer("dst", to or dtype, None, writable=True)
    (x,) = kernel.ids(100, local=(64,))
    kernel.store(dst, x, load(src, x, kind, width))
    return kernel


def body_of(text: str) -> str:
    return text.partition("fn entry(")[2]


def test_module_text_is_deterministic() -> None:
    assert LANGUAGE.render(copying(DType.F32, 4), "entry") == (
        "//# entry r0 w1\n"
        "struct Sizes { src_at: i32, dst_at: i32, grid_x: i32 }\n"
        "@group(0) @binding(0) var<uniform> sizes: Sizes;\n"
        "@group(0) @binding(1) var<storage, read> _b1: array<vec4<u32>>;\n"
        "@group(0) @binding(2) var<storage, read_write> _b2: array<vec4<u32>>;\n"
        "@compute @workgroup_size(64, 1, 1)\n"
        "fn entry(@builtin(global_invocation_id) gid: vec3<u32>,"
        " @builtin(local_invocation_id) lid: vec3<u32>) {\n"
        "  let _src4 = sizes.src_at >> 2u;\n"
        "  let _dst4 = sizes.dst_at >> 2u;\n"
        "  let x = i32(gid.x);\n"
        "  if ((x >= sizes.grid_x)) {\n"
        "    return;\n"
        "  }\n"
        "  _b2[_dst4 + x] = bitcast<vec4<u32>>(bitcast<vec4<f32>>(_b1[_src4 + x]));\n"
        "}\n"
    )


def test_title_does_not_change_text() -> None:
    kernel = copying(DType.F32, 4)
    kernel.title = "other"
    assert LANGUAGE.render(kernel, "k") == LANGUAGE.render(copying(DType.F32, 4), "k")


@pytest.mark.parametrize(
    ("dtype", "width", "kind", "reads"),
    [
        (DType.F16, 4, "float", "_halves4(_b1[_src4 + x])"),
        (DType.F16, 1, "float", "_half_b1(sizes.src_at + x)"),
        (DType.U8, 4, "float", "vec4<f32>(_bytes4(_b1[_src4 + x]))"),
        (DType.I8, 1, "int", "_signed_byte_b1(sizes.src_at + x)"),
        (DType.I16, 4, "int", "_signed_shorts4(_b1[_src4 + x])"),
        (DType.BOOL, 1, "bool", "(_byte_b1(sizes.src_at + x) != 0)"),
        (DType.I64, 1, "int", "_low1_b1(sizes.src_at + 1 * (x))"),
    ],
)
def test_elements_are_packed_in_words(dtype: DType, width: int, kind: str, reads: str) -> None:
    to = DType.BOOL if kind == "bool" else DType.F32 if kind == "float" else DType.I32
    assert reads in LANGUAGE.render(copying(dtype, width, kind, to), "entry")


@pytest.mark.parametrize("dtype", [DType.F16, DType.U8, DType.I16])
def test_parts_of_words_are_stored_atomically(dtype: DType) -> None:
    kind = "float" if dtype is DType.F16 else "int"
    single = LANGUAGE.render(copying(dtype, 1, kind), "entry")
    assert "array<atomic<u32>>" in single
    assert single.index("atomicAnd") < single.index("atomicOr")
    assert "atomic" not in LANGUAGE.render(copying(dtype, 4, kind), "entry")


def test_fp16_feature_only_for_arithmetic() -> None:
    assert "enable f16;" not in LANGUAGE.render(copying(DType.F16, 4), "entry")
    text = LANGUAGE.render(copying(DType.F16, 4, "half"), "entry")
    assert text.splitlines()[1] == "enable f16;"


def test_one_binding_for_a_buffer_that_is_written() -> None:
    kernel = copying(DType.F32, 4)
    assert LANGUAGE.render(kernel, "k", buffers=(0, 1)).startswith("//# k r0 w1\n")
    text = LANGUAGE.render(kernel, "k", buffers=(0, 0))
    assert text.startswith("//# k w0\n")
    assert "_b1[_dst4 + x] = bitcast<vec4<u32>>(bitcast<vec4<f32>>(_b1[_src4 + x]))" in text


def summing(count: int) -> Kernel:
    kernel = Kernel("sum", literal=False)
    total: Expression = const(0.0)
    for number in range(count):
        total = total + load(kernel.pointer(f"p{number}", DType.F32, None), number, "float")
    kernel.store(kernel.pointer("dst", DType.F32, None, writable=True), 0, total)
    return kernel


def test_shared_buffers_do_not_change_text() -> None:
    """If all pointers have a binding of their own, equal kernels share one pipeline."""
    apart = LANGUAGE.render(summing(3), "k", buffers=(0, 1, 2, 3))
    assert apart == LANGUAGE.render(summing(3), "k", buffers=(0, 0, 0, 3))


def test_bindings_stay_within_limit() -> None:
    text = LANGUAGE.render(summing(12), "k", buffers=(*[0] * 6, *[6] * 6, 12))
    assert text.startswith("//# k r0 r6 w12\n")
    text = LANGUAGE.render(summing(MAX_BINDINGS - 1), "k")
    assert len(text.partition("\n")[0].split()) == 2 + MAX_BINDINGS


def test_guards_are_branches() -> None:
    kernel = Kernel("guard", literal=False)
    src = kernel.pointer("src", DType.F32, None)
    dst = kernel.pointer("dst", DType.F32, None, writable=True)
    (x,) = kernel.ids(64, local=(64,))
    kernel.store(dst, x, guarded(x < 3, load(src, x, "float"), 1.0) * 2.0)
    lines = [line.strip() for line in LANGUAGE.render(kernel, "entry").splitlines()]
    start = lines.index("var _s1 = 1.0f;")
    assert lines[start + 1 : start + 4] == [
        "if ((x < 3)) {",
        "_s1 = bitcast<f32>(_b1[sizes.src_at + x]);",
        "}",
    ]


def test_comparisons_are_in_parentheses() -> None:
    """Otherwise `a < b, c > (d)` would parse as a type."""
    kernel = Kernel("compare", literal=False)
    dst = kernel.pointer("dst", DType.F32, None, writable=True)
    (x,) = kernel.ids(64, local=(64,))
    value = where(x < 3, where(x > 5, const(1.0), const(2.0)), const(3.0))
    kernel.store(dst, x, value)
    text = body_of(LANGUAGE.render(kernel, "entry"))
    assert re.findall(r"\(x [<>] \d\)", text) == ["(x > 5)", "(x < 3)"]


def waiting(stop: Expression | None) -> str:
    kernel = Kernel("wait", literal=False)
    src = kernel.pointer("src", DType.I32, None)
    dst = kernel.pointer("dst", DType.I32, None, writable=True)
    kernel.ids(64, local=(64,))
    shared = kernel.local_array("shared", "int", 1, 64)
    stop = kernel.let(load(src, 0, "int"), "stop") if stop is None else stop
    with kernel.loop(stop, title="i") as i:
        kernel.store(shared, local_id(0), i)
        kernel.barrier()
    kernel.store(dst, local_id(0), load(shared, 0, "int"))
    return LANGUAGE.render(kernel, "entry")


def test_barriers_are_in_uniform_control_flow() -> None:
    assert "workgroupUniformLoad" not in waiting(const(7))
    text = waiting(None)
    assert "if (all(lid == vec3<u32>())) { _told0 = stop; }" in text
    assert "let _s1 = workgroupUniformLoad(&_told0);" in text
    assert "i < _s1;" in text


def test_numbers_without_a_literal_are_bits() -> None:
    kernel = Kernel("numbers", literal=False)
    dst = kernel.pointer("dst", DType.F32, None, writable=True)
    values = [const(float(text)) for text in ("inf", "-inf", "nan", "1e39")]
    kernel.store(dst, 0, vector(*values))
    text = LANGUAGE.render(kernel, "entry")
    assert "var<private> INFINITY_BITS = 0x7f800000u;" in text
    assert "vec4<f32>(INFINITY, (-INFINITY), NAN, 3.4028234663852886e+38f)" in text


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (const(-(2**31)), "(-2147483647 - 1)"),
        (const(-1.5), "(-1.5f)"),
        (const(0.1), "0.10000000149011612f"),
        (const(0.1, "half"), "0.0999755859375h"),
        (const(True, "bool", 4), "vec4<bool>(true)"),
    ],
)
def test_literals(item: Expression, text: str) -> None:
    assert literal(item) == text


def test_kernel_names_are_valid_identifiers() -> None:
    assert [identifier(name) for name in ("filter", "sizes", "sum0", "_b1")] == [
        "filter_",
        "sizes_",
        "sum0",
        "k_b1",
    ]


def test_parameters_by_their_bits() -> None:
    kernel = Kernel("scale", literal=False)
    dst = kernel.pointer("dst", DType.F32, None, writable=True)
    kernel.store(dst, minimum(local_id(0), 3), kernel.number("scale", 0.3))
    assert "bitcast<f32>(sizes.scale)" in LANGUAGE.render(kernel, "entry")


def test_grids_are_folded() -> None:
    assert folded_launch((64, 2), (64, 1), 65535) == ((64, 2), (64, 1))
    assert folded_launch((64 * 70000,), (64,), None) == ((64 * 70000,), (64,))
    grid, local = folded_launch((64 * 70000,), (64,), 65535)
    assert (grid, local) == ((64 * 65535, 2, 1), (64, 1, 1))
    grid, local = folded_launch((2, 70000, 3), (2, 1, 1), 65535)
    assert (grid, local) == ((2 * 65535, 4, 1), (2, 1, 1))


def test_folded_kernel_computes_its_ids() -> None:
    kernel = Kernel("many", literal=False)
    dst = kernel.pointer("dst", DType.F32, None, writable=True)
    x, y = kernel.ids(64 * 3, 70000, local=(64, 1))
    kernel.store(dst, y * 192 + x, const(1.0))
    text = LANGUAGE.render(kernel, "entry")
    assert "let group = wid.y * 65535u + wid.x;" in text
    assert "if (group >= 210000u) { return; }" in text
    assert "vec3<u32>(group % 3u, group / 3u % 70000u, group / 210000u)" in text
