"""Run CUDA C plans without a GPU: their text is compiled with the host's C++ compiler.

Functions with inline assembly are replaced by C++ versions. Groups run one after the other, so a
plan of one launch must be made for a device with a single unit.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fourfold.codegen.c_style.grid_barrier import clock_functions, grid_barrier, host_handshake
from fourfold.codegen.c_style.sharing import line_fetching
from fourfold.codegen.cuda.dialect import CUDA
from fourfold.codegen.cuda.language import FUNCTIONS
from fourfold.codegen.cuda.vectors import HALF_INSTRUCTIONS
from fourfold.plan import BufferUse, Launch, Plan, Program
from fourfold.plan.host_protocol import DONE

COMPILER = shutil.which("g++") or shutil.which("clang++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="this machine has no C++ compiler")
_HERE = Path(__file__).parent
_HEADER = _HERE / "cuda_on_host.hpp"
_OPTIONS = ("-std=c++17", "-w", "-fPIC", "-shared", "-ffp-contract=off", "-march=native")
_MAX_LOCAL_BYTES = 256 << 10  # local memory that a launch may request
_WAITING = re.compile(
    r"__syncthreads|\b(exchange|from_last|from_next|matrix_multiply|filter_multiply)\("
)
_ENTRY = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(')
# Assembly in the text, by the name of its replacement.
_ASSEMBLY = {
    **{name: text for name, text in FUNCTIONS.items() if "asm" in text or "__cvta" in text},
    "half_instructions": HALF_INSTRUCTIONS,
    "grid_barrier": grid_barrier(CUDA),
    "clocked_grid_barrier": grid_barrier(CUDA, clocked=True),
    "clock_functions": clock_functions(CUDA),
    "host_handshake": host_handshake(CUDA),
    "line_fetching": line_fetching(CUDA),
}


def host_text(program: Program) -> str:
    """Return a program's text for the host, with assembly functions replaced."""
    text = program.text
    for name, function in _functions().items():
        text = text.replace(_ASSEMBLY[name], function)
    text = text.replace(CUDA.launch_array, f"static float4 pool[{_MAX_LOCAL_BYTES // 16}];")
    assert "asm" not in text, "a function of assembly has nothing in its place"
    entries = _ENTRY.findall(text)
    calls = (
        f'extern "C" void call_{entry}(void **a) {{ host::call(fourfold::{entry}, a); }}'
        for entry in entries
    )
    return "\n".join([f'#include "{_HEADER}"', text, *calls, ""])


def _functions() -> dict[str, str]:
    content = (_HERE / "cuda_on_host_functions.hpp").read_text(encoding="utf-8")
    _, *blocks = content.replace("DONE_FLAG", str(DONE)).split("//: ")
    pairs = (block.split("\n", 1) for block in blocks)
    return {name: f"\n{text}" for name, text in pairs}


class HostKernels:
    """The kernels of a program as host functions."""

    def __init__(self, program: Program, folder: Path) -> None:
        self._functions = build_library(program, folder)
        self._waits = _WAITING.search(program.text) is not None

    def launch(self, entry: str, groups: list[int], items: list[int], given: Any) -> None:
        """Run a kernel; `given` has the address of each argument, as in the CUDA API."""
        three = ctypes.c_uint * 3
        sizes = (three(*groups), three(*items))
        function = getattr(self._functions, f"call_{entry}")
        self._functions.host_launch(function, given, *sizes, int(self._waits))


def build_library(program: Program, folder: Path) -> ctypes.CDLL:
    """Compile a program's text."""
    assert COMPILER is not None
    source, library = folder / "plan.cpp", folder / "plan.so"
    source.write_text(host_text(program), encoding="utf-8")
    command = [COMPILER, str(source), "-o", str(library), *_OPTIONS]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(library))


def play_on_host(plan: Plan, inputs: list[np.ndarray], folder: Path) -> list[np.ndarray]:
    """Return the plan's outputs for these inputs. Unwritten elements are NaN."""
    kernels = HostKernels(plan.program, folder)
    memory = [_memory(plan, number) for number in range(len(plan.buffers))]
    for port, array in zip(plan.inputs, inputs, strict=True):
        memory[port.buffer][: array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    for launch in plan.launches:
        _launch(kernels, launch, memory)
    return [
        memory[port.buffer][: port.type.bytes].view(port.type.dtype.numpy).reshape(port.type.shape)
        for port in plan.outputs
    ]


def _memory(plan: Plan, number: int) -> np.ndarray:
    """Return a buffer with its initial content, aligned for vectors."""
    buffer = plan.buffers[number]
    whole = np.full(buffer.bytes + 128, 0xFF, np.uint8)
    start = -whole.ctypes.data % 64
    memory = whole[start : start + max(buffer.bytes, 64)]
    if buffer.kind == "constants":
        memory[: plan.constants.nbytes] = plan.constants
    elif buffer.kind in ("variable", "state", "host_protocol"):
        memory[: buffer.bytes] = plan.start_of(buffer)
    return memory


def _launch(kernels: HostKernels, launch: Launch, memory: list[np.ndarray]) -> None:
    values: list[ctypes.c_void_p | ctypes.c_int64 | ctypes.c_int32] = []
    for argument in launch.arguments:
        if isinstance(argument, BufferUse):
            values.append(ctypes.c_void_p(memory[argument.buffer].ctypes.data))
            values.append(ctypes.c_int64(argument.offset))
        else:
            values.append(ctypes.c_int32(argument))
    inputs = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
    padding = [1] * (3 - len(launch.grid))
    local = [*launch.local, *padding]
    groups = [size // by for size, by in zip([*launch.grid, *padding], local, strict=True)]
    assert prod(groups) * prod(local) == prod(launch.grid)
    kernels.launch(launch.entry, groups, local, inputs)
