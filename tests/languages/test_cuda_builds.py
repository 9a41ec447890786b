"""NVRTC compiles every CUDA C text for every architecture, without a GPU.

Resources are checked too: static shared memory and, for plans of one launch, the registers that let
a group be resident on every multiprocessor.
"""

from __future__ import annotations

import re
from functools import cache
from math import prod
from pathlib import Path

import pytest
from halved_graphs import GRAPHS, in_halves
from kernel_resources import Resources, fits, read_resources, resources_of
from model_collection import MODELS, or_skipped
from op_inputs import case_graph
from op_kernels import WITH_KERNELS, op_graph
from ops.test_staged_copies import LARGE, staged_plan
from ops.test_warpgroups import SMALL, TILES, warpgroup_plan

from fourfold.backends.cuda import nvrtc
from fourfold.backends.cuda.boards import BOARDS, find_board
from fourfold.codegen.context import KernelOptions
from fourfold.codegen.cuda.stage_calls import count_parts
from fourfold.compiler.compile import load_model
from fourfold.compiler.lower import make_plan, specialise
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.errors import BuildError, DeviceError, InputError, UnsupportedError
from fourfold.graph import Graph
from fourfold.ops.base import registry
from fourfold.options import CompileOptions
from fourfold.plan import Program

FILES = sorted(path for path in MODELS.rglob("*") if path.suffix in (".tflite", ".onnx"))
# Each op uses a feature that the others lack: exchange within a warp, products of fragments,
# filters with matrix units, vector selections, and conversions.
SELECTED_OPS = ("cast", "conv2d", "depthwise_conv2d", "select", "softmax")
PRECISIONS = ("fp32", "mixed", "fp16")
# All forms of a text, and each of the assemblers: architectures from sm_80 on get the same text,
# and sm_75, whose groups cannot wait for each other, gets lists.
PART_OPTIONS = ("-DPART=1", "--relocatable-device-code=true", "--maxrregcount=255")
PART_OPTIONS += ("--ptxas-options=-v",)
WAYS = [
    *(("sm_90", precision, form) for precision in PRECISIONS for form in ("one", "list")),
    *(("sm_75", precision, "list") for precision in PRECISIONS),
    *((architecture, "mixed", "one") for architecture in ("sm_87", "sm_120")),
]


def why_not() -> str:
    try:
        nvrtc.libraries()
    except DeviceError as error:
        return f"{error.what}: {error.why}; {error.fix}"
    return ""


pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "NVRTC is there")


def board(name: str) -> DeviceInfo:
    """Return the largest GPU of an architecture: work is divided into more parts there."""
    result = find_board(name, units=132)
    assert result is not None
    return result


def check(
    graph: Graph, architecture: str, precision: str, form: str, clocked: bool = False
) -> None:
    """Check that the plan's kernels compile and can be launched."""
    options = KernelOptions(precision, form=form, clocked=clocked)
    plan = make_plan(graph, board(architecture), options)
    assert (plan.clocks is not None) == clocked
    taken = resources_of(plan, architecture)
    waits = plan.requirements.resident_groups > 0
    for launch in plan.launches:
        assert fits(launch, taken[launch.entry], waits), (launch, taken[launch.entry])
        assert taken[launch.entry].local_bytes <= max(plan.requirements.local_memory, 1 << 10)


def first_cases(name: str) -> Graph:
    """Return the first cases of an op; compiling all of them takes many seconds."""
    op = registry()[name]
    return rewrite(case_graph(op, op.cases[:4])[0])


@pytest.mark.parametrize("name", SELECTED_OPS)
def test_selected_ops_compile(name: str) -> None:
    check(first_cases(name), "sm_90", "mixed", "one")


@pytest.mark.parametrize("clocked", [False, True])
def test_parts_build_side_by_side(clocked: bool) -> None:
    """Each stage is in one part, and the kernel in another; none of them saves registers."""
    options = KernelOptions("mixed", form="one", clocked=clocked)
    plan = make_plan(first_cases("conv2d"), board("sm_90"), options)
    result = nvrtc.compiler_for("sm_90")
    if result.version < (13, 0):
        pytest.skip(f"{result.name} cannot build parts")
    parts = nvrtc.build_parts(plan.program, "sm_90")
    assert len(parts) == count_parts(plan.program.text) > 2
    entries = [b".text.one_launch" in part for part in parts]
    assert entries == [True] + [False] * (len(parts) - 1)
    stages = len(set(re.findall(r"stage_(\d+)\(", plan.program.text)))
    defined = [{*re.findall(rb"\.text\.stage_(\d+)", part)} for part in parts]
    assert sum(map(len, defined)) == len(set().union(*defined)) == stages
    with nvrtc._compiled(result, plan.program, "sm_90", PART_OPTIONS) as handle:
        log = nvrtc._text(result.functions, handle)
    assert "spill stores" in log
    assert set(re.findall(r"(\d+) bytes spill stores", log)) == {"0"}


def test_stages_with_clocks() -> None:
    check(first_cases("softmax"), "sm_90", "mixed", "one", clocked=True)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids="-".join)
@pytest.mark.parametrize("name", WITH_KERNELS)
def test_all_ops_compile(name: str, way: tuple[str, str, str]) -> None:
    check(op_graph(name), *way)


@pytest.mark.parametrize("architecture", BOARDS)
def test_every_architecture(architecture: str) -> None:
    """The requirements of a plan match the instructions of its architecture."""
    try:
        nvrtc.compiler_for(architecture)
    except DeviceError as error:
        pytest.skip(f"{error.what}; {error.fix}")
    graph, options = first_cases("conv2d"), KernelOptions("mixed", form="list")
    plan = make_plan(graph, board(architecture), options)
    assert plan.requirements.matrix_units == board(architecture).matrix_units
    resources_of(plan, architecture)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_120"])
def test_copies_ahead(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specialise, "MAX_FP32_ARENA_BYTES", -1)
    plan = staged_plan(in_halves(GRAPHS["one tap"]), board(architecture), "128x128 in 2")
    assert "cp.async" in plan.program.text
    (taken,) = [one for name, one in resources_of(plan, architecture).items() if "staged" in name]
    assert taken.spilled == 0
    assert 0 < taken.local_bytes <= plan.requirements.local_memory


def test_local_memory_that_launches_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specialise, "MAX_FP32_ARENA_BYTES", -1)
    plan = staged_plan(in_halves(GRAPHS["one tap"]), LARGE, "128x128 in 4", "one")
    (taken,) = resources_of(plan, "sm_90").values()
    (launch,) = plan.launches
    assert taken.local_bytes < 1024  # its rows of the table
    assert launch.local_bytes > 48 << 10


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("form", ["list", "one"])
def test_warpgroups(tile: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler accepts their instructions, and registers suffice for the sums."""
    monkeypatch.setattr(specialise, "MAX_FP32_ARENA_BYTES", -1)
    plan = warpgroup_plan(in_halves(GRAPHS["steps and gaps"]), SMALL, tile, form)
    result, launch = resources_of(plan, "sm_90"), plan.launches[-1]
    assert result[launch.entry].spilled == 0
    assert result[launch.entry].groups_at_once(prod(launch.local)) > 0


@cache
def model_graph(path: Path, precision: str) -> Graph:
    return rewrite(load_model(str(path), CompileOptions(precision)).graph)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids="-".join)
@pytest.mark.parametrize("path", or_skipped(FILES), ids=lambda path: path.name)
def test_models_compile(path: Path, way: tuple[str, str, str]) -> None:
    try:
        check(model_graph(path, way[1]), *way)
    except (InputError, UnsupportedError) as error:
        pytest.skip(f"it has no plan as it is: {error.what}")


def test_parses_assembler_resources() -> None:
    """Kernels that need many resources are distinguished from those that need few."""
    text = """
extern "C" __global__ void __launch_bounds__(256) small(float *x) { x[threadIdx.x] = 1.0f; }
extern "C" __global__ void __launch_bounds__(1024) large(float *x, int n)
{
    __shared__ float many[8192];
    float kept[200];
#pragma unroll
    for (int i = 0; i < 200; i++) kept[i] = x[i * n];
    many[threadIdx.x] = kept[0];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 200; i++) x[i * n + 1] = kept[i] * many[i + n];
}
"""
    _, log = nvrtc.build_with_log(Program(text, "--std=c++17"), "sm_90", "--ptxas-options=-v")
    result = read_resources(log)
    assert result["small"].local_bytes == result["small"].spilled == 0
    assert result["small"].groups_at_once(256) >= 8
    assert result["large"].local_bytes == 32768
    assert result["large"].spilled > 0
    assert Resources(256, 0, 0).groups_at_once(256) == 1
    assert Resources(257, 0, 0).groups_at_once(256) == 0


def test_build_error_contains_compiler_output() -> None:
    text = 'extern "C" __global__ void k(float *x) { x[0] = nonsense; }'
    with pytest.raises(BuildError, match="nonsense") as caught:
        nvrtc.build(Program(text, "--std=c++17"), "sm_90")
    assert "nonsense" in caught.value.log
    assert caught.value.source == text


def test_rejects_unknown_architecture() -> None:
    with pytest.raises(DeviceError, match="sm_75") as caught:
        nvrtc.build(Program("", ""), "sm_35")
    assert "nvidia-cuda-nvrtc-cu12" in caught.value.fix
