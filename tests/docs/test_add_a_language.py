"""docs/add-a-language.md, followed literally: its folder is found, and its programs are built."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
import pytest
from docs.blocks import ROOT, write_files
from op_kernels import WITH_KERNELS, all_kernels, op_graph
from op_trials import trial

from fourfold import codegen
from fourfold.backends.null import NULL_GPU
from fourfold.codegen.check import unsupported_features
from fourfold.codegen.context import KernelOptions
from fourfold.codegen.language import find_language, languages
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.ops.base import registry
from fourfold.plan import ARENA, CONSTANTS, BufferUse, Plan

PAGE = ROOT / "docs" / "add-a-language.md"
COMPILER = shutil.which("cc")
PROCESSOR = replace(
    NULL_GPU, name="this processor", kind="cpu", compute_units=2, language="plain_c"
)
OPS = (
    *("add", "cast", "equal", "floor_div", "gelu", "hard_swish", "logistic", "power", "relu6"),
    *("round", "rsqrt", "select", "tanh", "concat", "depth_to_space", "gather", "mirror_pad"),
    *("pad", "reshape", "slice", "transpose", "average_pool2d", "max_pool2d", "resize_bilinear"),
    *("arg_max", "batch_matmul", "conv2d", "depthwise_conv2d", "fully_connected", "joined"),
    *("mean", "reduce_max", "softmax", "transpose_conv2d"),
)
TOLERANCE = 2e-5


@pytest.fixture(autouse=True)
def overlay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """Install the page's files in a folder that is searched besides the package's own."""
    files = write_files(PAGE, tmp_path)
    folder = tmp_path / "src" / "fourfold" / "codegen"
    (folder / "plain_c" / "__init__.py").touch()
    monkeypatch.setattr(codegen, "__path__", [*codegen.__path__, str(folder)])
    yield files
    find_language.cache_clear()
    for name in [name for name in sys.modules if name.startswith("fourfold.codegen.plain_c")]:
        del sys.modules[name]
    vars(codegen).pop("plain_c", None)


def test_page_adds_one_folder(overlay: list[Path]) -> None:
    assert {file.parent for file in overlay} == {Path("src/fourfold/codegen/plain_c")}
    assert "plain_c" in languages()


def run_plan(plan: Plan, inputs: list[np.ndarray], folder: Path) -> list[np.ndarray]:
    """Run a plan with the system compiler."""
    assert COMPILER is not None
    source, library = folder / "plan.c", folder / "plan.so"
    source.write_text(plan.program.text, encoding="utf-8")
    command = [COMPILER, str(source), "-o", str(library), *plan.program.options.split()]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    functions = ctypes.CDLL(str(library))
    memory = [np.full(max(one.bytes, 64), 0xFF, np.uint8) for one in plan.buffers]
    memory[CONSTANTS][: plan.constants.nbytes] = plan.constants
    for port, array in zip(plan.inputs, inputs, strict=True):
        memory[port.buffer][: array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    for launch in plan.launches:
        arguments: list[object] = []
        for argument in launch.arguments:
            if isinstance(argument, BufferUse):
                start = memory[argument.buffer].ctypes.data
                arguments += [ctypes.c_void_p(start), ctypes.c_int64(argument.offset)]
            else:
                arguments.append(ctypes.c_int32(argument))
        grid = (ctypes.c_int64 * 3)(*launch.grid, *[1] * (3 - len(launch.grid)))
        functions[launch.entry](*arguments, grid)
    assert plan.buffers[ARENA].kind == "arena"
    return [
        memory[port.buffer][: port.type.bytes].view(port.type.dtype.numpy).reshape(port.type.shape)
        for port in plan.outputs
    ]


@pytest.mark.skipif(COMPILER is None, reason="this machine has no C compiler called cc")
@pytest.mark.parametrize("name", OPS)
def test_ops_agree_with_their_references(name: str, tmp_path: Path) -> None:
    item = trial(registry()[name])
    plan = make_plan(rewrite(item.graph), PROCESSOR, KernelOptions())
    results = run_plan(plan, item.inputs, tmp_path)
    item.check(results, TOLERANCE)
    assert prod(plan.launches[0].local) == 1


def test_language_gets_only_supported_kernels() -> None:
    able = find_language("plain_c").capabilities
    wrong = {
        what
        for name in WITH_KERNELS
        for one in all_kernels(op_graph(name), PROCESSOR, KernelOptions("mixed"))
        for what in unsupported_features(one, able)
    }
    assert not wrong, "\n".join(sorted(wrong))
