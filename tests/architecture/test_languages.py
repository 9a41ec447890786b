"""Text of a GPU language appears in the folder of that language in `codegen`, and nowhere else.

Languages of the C family share the folder `c_style`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from architecture.source import PACKAGE, Module, imported_names, modules

from fourfold.codegen.language import languages

# Words and shapes that only occur in kernel text.
TOKENS = re.compile(
    r"""
    __kernel | __global | __local\b | __shared__ | __device__ | __attribute__ | __builtin_
    | \bget_(global|local|group)_(id|size)\b | \bget_num_groups\b | \bget_max_sub_group
    | \b(threadIdx|blockIdx|blockDim|gridDim)\b | \b__syncthreads | \bworkgroupBarrier
    | \bas_(float|int|uint|half|uchar|char)\d*\( | \bconvert_(float|half|int|uint|u?char|short|long)
    | \bbarrier\( | \bmem_fence\b | CLK_ | \bvload | \bvstore | \bread_image | \bimage1d_buffer_t
    | \bsub_group_ | \batomic_(inc|add|max) | \basm\b | \#pragma | \#define | \#if\b | -cl-
    | @(compute|workgroup_size|group|binding) | \bvar< | \bvec[234]< | \bfn\ \w+\(
    | \bworkgroupUniformLoad | \batomic(Add|Load|Store|Max)\b
    | __(restrict|launch_bounds|forceinline|shfl|ldg|cvta) | \bwgmma\b | \bcp\.async | \bmma\.sync
    | \b(fma|mad|mad24)\( | \bnative_(exp|log|sqrt|rsqrt|recip|sin|cos) | \breqd_work_group_size
    | \bvoid\ \w+\( | \bfor\ \(int\b | \brestrict\b | ;\s*\n\s*\}
    | \b(const|static)\s+(float|int|uint|half|void)\b | \bcl_khr_
    """,
    re.VERBOSE,
)
KERNEL_FILES = {".cl", ".cu", ".cuh", ".metal", ".ptx", ".spv", ".wgsl"}
# These list extension names as drivers report them, not kernel text.
EXTENSION_LISTS = ("backends/claims.py", "backends/opencl/devices.py")


def strings(module: Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield all strings and byte strings of a module, including docstrings."""
    for node in module.nodes(ast.Constant):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node, node.value
        elif isinstance(node, ast.Constant) and isinstance(node.value, bytes):
            yield node, node.value.decode("latin-1")


def language_token(text: str) -> str | None:
    match = TOKENS.search(text)
    return None if match is None else match[0]


LANGUAGE_FOLDERS = tuple(f"codegen/{name}/" for name in (*languages(), "c_style"))


def test_no_gpu_language_text_outside_its_folder() -> None:
    violations = [
        f"{module.at(node)}: {token!r}"
        for module in modules()
        if not module.path.startswith((*LANGUAGE_FOLDERS, *EXTENSION_LISTS))
        for node, text in strings(module)
        if (token := language_token(text)) is not None
    ]
    assert not violations, "\n".join(violations)


def test_no_file_of_a_language_outside_its_folder() -> None:
    files = (path for path in PACKAGE.rglob("*") if path.suffix in KERNEL_FILES)
    below = (path.relative_to(PACKAGE).as_posix() for path in files)
    assert [path for path in below if not path.startswith(LANGUAGE_FOLDERS)] == []


def test_drivers_tell_names_only() -> None:
    tokens = {
        language_token(text)
        for module in modules()
        if module.path in EXTENSION_LISTS
        for _, text in strings(module)
    }
    assert tokens == {None, "cl_khr_"}


def test_only_backends_import_a_language_by_name() -> None:
    """Other modules use the language of a device."""
    folders = tuple(f"fourfold.codegen.{name}" for name in languages())
    violations = [
        f"{module.at(node)}: {name}"
        for module in modules()
        if not module.path.startswith((*LANGUAGE_FOLDERS, "backends/"))
        for node in module.nodes(ast.Import, ast.ImportFrom)
        for name in imported_names(node)
        if name.startswith(folders)
    ]
    assert not violations, "\n".join(violations)


@pytest.mark.parametrize(
    "text",
    [
        "__kernel void f(__global float *x)",
        "x[get_global_id(0)] = as_float(y)",
        "barrier(CLK_LOCAL_MEM_FENCE);",
        'asm volatile("bar.sync 0;")',
        "#pragma OPENCL EXTENSION cl_khr_fp16 : enable",
        "const float4 a = vload4(0, b);",
        "__global__ void f(float *x) { x[threadIdx.x] = 0; }",
        "@compute @workgroup_size(64) fn main()",
        "let v: vec4<f32> = x[i];",
        "for (int i = 0; i < 4; i++)",
        "a = fma(b, c, a);",
        "x = 1;\n}",
    ],
)
def test_recognizes_gpu_language_text(text: str) -> None:
    assert language_token(text) is not None


def test_every_driver_compiled_language_contains_its_text() -> None:
    for folder in set(LANGUAGE_FOLDERS) - {"codegen/tree/"}:  # our own interpreter reads trees
        matches = [
            text
            for module in modules()
            if module.path.startswith(folder)
            for _, text in strings(module)
            if language_token(text) is not None
        ]
        assert matches, folder
