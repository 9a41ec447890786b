"""Compiles WGSL modules with Tint, Chrome's compiler, in a package for Node, including fp16.

Run `npm install webgpu` in a folder and set NPM_FOLDER to it; otherwise the tests are skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from model_collection import TFLITE, needs_models
from op_kernels import WITH_KERNELS, op_graph
from wgsl_on_wgpu import HALVES, LEAST, modules

from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.formats import read_model
from fourfold.graph import Graph

NODE, FOLDER = shutil.which("node"), os.environ.get("NPM_FOLDER", "")
SCRIPT = Path(__file__).with_name("compile_by_tint.mjs")
SELECTED_OPS = ("cast", "conv2d", "non_max_suppression", "softmax", "power")
SOFTWARE = replace(LEAST, kind="other", local_memory=0)
pytestmark = pytest.mark.skipif(
    NODE is None or not (Path(FOLDER) / "node_modules" / "webgpu").is_dir(),
    reason="no Node, or NPM_FOLDER names no folder with webgpu",
)


def refused(texts: dict[str, str]) -> list[str]:
    """Return Tint's messages for modules that it rejects; `texts` maps texts to entry points."""
    assert NODE is not None
    done = subprocess.run(
        [NODE, str(SCRIPT), str(Path(FOLDER).resolve())],
        input="\n".join(json.dumps([entry, text]) for text, entry in texts.items()),
        capture_output=True,
        timeout=600,
        check=True,
        text=True,
    )
    *lines, last = done.stdout.splitlines()
    wrong = [line for line in lines if line.startswith("refused: ")]
    assert last == f"{len(texts) - len(wrong)} taken"
    return wrong


def texts_of(graph: Graph, device: DeviceInfo, precision: str) -> dict[str, str]:
    plan = make_plan(graph, device, KernelOptions(precision))
    return {text: entry for entry, (text, _) in modules(plan).items()}


def texts_of_ops(names: tuple[str, ...], precision: str) -> dict[str, str]:
    devices = (HALVES,) if precision == "fp16" else (LEAST, SOFTWARE)
    every = [texts_of(op_graph(name), one, precision) for name in names for one in devices]
    return {text: entry for texts in every for text, entry in texts.items()}


def test_reports_invalid_modules() -> None:
    text = "//# a\n@compute @workgroup_size(1)\nfn a() { let x: f16 = 1.0; }"
    assert len(refused({text: "a"})) == 1


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_selected_ops(precision: str) -> None:
    texts = texts_of_ops(SELECTED_OPS, precision)
    assert any("enable f16;" in text for text in texts) == (precision == "fp16")
    assert not refused(texts)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "mixed", "fp16"])
def test_all_ops(precision: str) -> None:
    assert not refused(texts_of_ops(tuple(WITH_KERNELS), precision))


@pytest.mark.slow
@needs_models
@pytest.mark.parametrize("precision", ["fp32", "mixed", "fp16"])
def test_all_models(precision: str) -> None:
    texts: dict[str, str] = {}
    for path in sorted(TFLITE.glob("*.tflite")):
        texts |= texts_of(rewrite(read_model(str(path)).main), HALVES, precision)
    assert texts
    assert not refused(texts)
