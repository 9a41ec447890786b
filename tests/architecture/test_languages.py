"""Text of a GPU language appears only in that language's folder, or in the folder that the C-like
languages share.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from architecture.source import Module, imported_names, modules

from fourfold.codegen.registry import languages

# Tokens that identify text of a GPU language, including languages not supported yet.
TOKENS = re.compile(
    r"""
    __kernel | __global | __local\b | __shared__ | __device__ | __attribute__ | __builtin_
    | \bget_(global|local|group)_(id|size)\b | \bget_num_groups\b | \bget_max_sub_group
    | \b(threadIdx|blockIdx|blockDim|gridDim)\b | \b__syncthreads | \bworkgroupBarrier
    | \bas_(float|int|uint|half|uchar|char)\d*\( | \bconvert_(float|half|int|uint|u?char|short|long)
    | \bbarrier\( | \bmem_fence\b | CLK_ | \bvload | \bvstore | \bread_image | \bimage1d_buffer_t
    | \bsub_group_ | \batomic_(inc|add|max) | \basm\b | \#pragma | \#define | \#if\b | -cl-
    | @(compute|workgroup_size|group|binding) | \bvar<
    | \b(const|static)\s+(float|int|uint|half|void)\b | \bcl_khr_
    """,
    re.VERBOSE,
)
# These list extension names as drivers report them, which is data and not program text.
EXTENSION_LISTS = ("backends/claims.py", "backends/opencl/devices.py")


def strings(module: Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield every string constant of a module, docstrings included."""
    for node in module.nodes(ast.Constant):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node, node.value


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


def test_extension_lists_contain_only_extension_names() -> None:
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
