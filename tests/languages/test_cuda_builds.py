"""Every text in CUDA C is taken by NVRTC, for every architecture; no GPU is needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from op_kernels import WITH_KERNELS, op_graph

from fourfold.compile import load_model
from fourfold.device import DeviceInfo
from fourfold.errors import BuildError, DeviceError, InputError, UnsupportedError
from fourfold.kernel.context import KernelOptions
from fourfold.lower import make_plan
from fourfold.options import CompileOptions
from fourfold.plan import Program
from fourfold.players.cuda import nvrtc
from fourfold.players.cuda.boards import BOARDS, find_board
from fourfold.rewrite import rewrite

MODELS = Path(__file__).resolve().parents[3] / "shared" / "models"
FILES = sorted(path for path in MODELS.rglob("*") if path.suffix in (".tflite", ".onnx"))
FEW = ("softmax",)
SHORT = [one if one in FEW else pytest.param(one, marks=pytest.mark.slow) for one in WITH_KERNELS]
ARCHITECTURES = ("sm_75", "sm_87", "sm_90", "sm_120")


def why_not() -> str:
    try:
        nvrtc.libraries()
    except DeviceError as error:
        return f"{error.what}: {error.why}; {error.fix}"
    return ""


pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "NVRTC is there")


def board(name: str) -> DeviceInfo:
    found = find_board(name)
    assert found is not None
    return found


def build(program: Program, architecture: str) -> None:
    image = nvrtc.build(program, architecture)
    assert image.cubin.startswith(b"\x7fELF")
    assert f".target {architecture}".encode() in image.ptx


@pytest.mark.parametrize("precision", ["fp32", "mixed", "fp16"])
@pytest.mark.parametrize("name", SHORT)
def test_ops(name: str, precision: str) -> None:
    device = board("sm_90")
    for form in ("list", "one"):
        build(
            make_plan(op_graph(name), device, KernelOptions(precision, form=form)).program, "sm_90"
        )


@pytest.mark.parametrize("architecture", BOARDS)
def test_every_architecture(architecture: str) -> None:
    """What a plan for an architecture says is in the instructions that this one has."""
    device = replace(board(architecture), compute_units=132)
    plan = make_plan(op_graph("fully_connected"), device, KernelOptions("mixed", form="list"))
    assert plan.requirements.matrix_units == device.matrix_units
    build(plan.program, architecture)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(("precision", "form"), [("fp32", "list"), ("mixed", "auto")])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_models(path: Path, precision: str, form: str, architecture: str) -> None:
    try:
        graph = rewrite(load_model(str(path), CompileOptions(precision)).graph)
        options = KernelOptions(precision, form=form)
        plan = make_plan(graph, replace(board(architecture), compute_units=132), options)
    except (InputError, UnsupportedError) as error:
        pytest.skip(f"it has no plan as it is: {error.what}")
    build(plan.program, architecture)


def test_what_the_compiler_says_is_in_the_error() -> None:
    text = 'extern "C" __global__ void k(float *x) { x[0] = nonsense; }'
    with pytest.raises(BuildError, match="nonsense") as caught:
        nvrtc.build(Program(text, "--std=c++17"), "sm_90")
    assert "nonsense" in caught.value.log
    assert caught.value.source == text


def test_an_architecture_that_the_compiler_does_not_know() -> None:
    with pytest.raises(DeviceError, match="sm_75") as caught:
        nvrtc.build(Program("", ""), "sm_35")
    assert "nvidia-cuda-nvrtc-cu12" in caught.value.fix
