"""CUDA C: its text, and its differences from OpenCL C."""

from __future__ import annotations

import re

import pytest
from fake_devices import NVIDIA, target_of

from fourfold.codegen import expression as e
from fourfold.codegen.cuda.dialect import CUDA
from fourfold.codegen.cuda.language import LANGUAGE
from fourfold.codegen.intrinsics import pack_halves, subgroup_exchange
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.language import find_language, languages
from fourfold.codegen.statement import LocalArray
from fourfold.codegen.walk import special_nodes
from fourfold.types import DType


def test_found_by_name_but_shared_folder_is_not() -> None:
    assert find_language("cuda") is LANGUAGE
    assert "c_style" not in languages()


def test_the_whole_text() -> None:
    kernel = Kernel("double", literal=False)
    source = kernel.pointer("src", DType.F32, None)
    target = kernel.pointer("dst", DType.F16, None, writable=True)
    kernel.local = (16, 4)
    x = kernel.let(e.global_id(0), "x")
    value = e.load(source, x, "float", 4)
    kernel.store(target, x, e.where(value < 0.0, 0.0, value))
    assert LANGUAGE.render(kernel, "double_0") == (
        "namespace fourfold {\n"
        "// double\n"
        'extern "C" __global__ void __launch_bounds__(64) double_0(\n'
        "    const float *__restrict__ src_base,\n"
        "    longlong src_at,\n"
        "    half *__restrict__ dst_base,\n"
        "    longlong dst_at)\n"
        "{\n"
        "    const float *src = src_base + src_at;\n"
        "    half *dst = dst_base + dst_at;\n"
        "    const float4 *src_4 = (const float4 *)src;\n"
        "    half4 *dst_4 = (half4 *)dst;\n"
        "    const int x = global_x();\n"
        "    const float4 s0 = src_4[x];\n"
        "    dst_4[x] = convert<half4>(choose(s0 < float4(0.0f), float4(0.0f), s0));\n"
        "}\n"
        "}\n"
    )


@pytest.mark.parametrize(
    ("width", "number", "spelled"),
    [(2, 1, "v.y"), (4, 3, "v.w"), (8, 5, "v.hi.y"), (16, 11, "v.hi.lo.w"), (16, 2, "v.lo.lo.z")],
)
def test_lanes(width: int, number: int, spelled: str) -> None:
    assert CUDA.lane("v", width, number) == spelled


@pytest.mark.parametrize(
    ("width", "first", "count", "spelled"),
    [
        (4, 2, 2, "v.hi()"),
        (8, 4, 4, "v.hi"),
        (8, 2, 2, "v.lo.hi()"),
        (16, 8, 4, "v.hi.lo"),
        (4, 1, 1, "v.y"),
    ],
)
def test_parts(width: int, first: int, count: int, spelled: str) -> None:
    assert CUDA.part("v", width, first, count) == spelled


def test_types_of_one_size_on_every_host() -> None:
    """A long has 32 bits on Windows, and char is unsigned on ARM."""
    kernel = Kernel("k", literal=False)
    small = kernel.pointer("small", DType.I8, None)
    large = kernel.pointer("large", DType.I64, None, writable=True)
    kernel.store(large, 0, e.load(small, 0, "int", 2))
    text = LANGUAGE.render(kernel, "k")
    assert re.search(r"\b(long|char)\b", text) is None
    assert "large_2[0] = convert<longlong2>(convert<int2>(small_2[0]));" in text


def test_local_memory_and_barriers() -> None:
    kernel = Kernel("k", literal=False)
    pointer = e.Pointer("near", DType.F32, writable=True, local=True)
    kernel.body.append(LocalArray(pointer, "float", 4, 8))
    kernel.barrier()
    text = LANGUAGE.render(kernel, "k")
    assert "__shared__ float4 near[8];" in text
    assert "__syncthreads();" in text


def test_only_called_functions_need_newer_gpu() -> None:
    kernel = Kernel("k", literal=False)
    value = e.name("v", "float", 4)
    kernel.let(pack_halves(value), "packed")
    kernel.let(subgroup_exchange(value.lane(0), 1), "other")
    prelude = LANGUAGE.prelude(tuple(special_nodes([kernel])), target_of(NVIDIA))
    assert prelude.version == "7.5"
    assert "pack_halves(" in prelude.text
    assert "exchange(" in prelude.text
    assert "matrix_multiply(" not in prelude.text
