"""Translates WGSL modules to Metal, HLSL and SPIR-V with naga, in a package for Node.

Run `npm install naga-wasm@30` in a folder and set NPM_FOLDER to it; otherwise the tests are
skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from op_kernels import WITH_KERNELS, op_graph
from wgsl_on_wgpu import HALVES, LEAST, modules

from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan

NODE, FOLDER = shutil.which("node"), os.environ.get("NPM_FOLDER", "")
SCRIPT = Path(__file__).with_name("translate_wgsl.mjs")
SELECTED_OPS = ("cast", "conv2d", "non_max_suppression", "softmax", "power")
pytestmark = pytest.mark.skipif(
    NODE is None or not FOLDER, reason="no Node, or NPM_FOLDER names no folder with naga-wasm"
)


def translated(names: list[str], precision: str) -> tuple[list[str], int]:
    """Return the rejected modules, and the number of modules."""
    device, texts = HALVES if precision == "fp16" else LEAST, []
    for name in names:
        plan = make_plan(op_graph(name), device, KernelOptions(precision))
        texts += [json.dumps([entry, text]) for entry, (text, _) in modules(plan).items()]
    assert NODE is not None
    done = subprocess.run(
        [NODE, str(SCRIPT), str(Path(FOLDER).resolve())],
        input="\n".join(texts),
        capture_output=True,
        check=True,
        text=True,
    )
    *wrong, last = done.stdout.splitlines()
    assert last == f"{3 * (len(texts) - len(wrong))} translations"
    return wrong, len(texts)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_selected_ops(precision: str) -> None:
    wrong, count = translated([*SELECTED_OPS], precision)
    assert count > len(SELECTED_OPS)
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "mixed", "fp16"])
def test_all_ops(precision: str) -> None:
    wrong, _ = translated(WITH_KERNELS, precision)
    assert not wrong, "\n".join(wrong)
