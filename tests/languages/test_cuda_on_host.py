"""Ops in CUDA C, compiled with the C++ compiler of this machine, against their NumPy references."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cuda_on_host import needs_compiler, play_on_host
from op_kernels import WITH_KERNELS
from op_trials import IN_HALVES, TOLERANCE, trial

from fourfold.backends.cuda.boards import find_board
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.ops.base import registry

BOARD = find_board("sm_90", units=1)
assert BOARD is not None
PLAIN = replace(BOARD, matrix_units=False, resident=False, reaches_host=False, subgroups="")
# Each op uses a feature that the others lack: conversions, selections, integers, bools, local
# memory, exchange within a warp, dot products of bytes, products of fragments.
SELECTED_OPS = (
    "cast",
    "conv2d",
    "depthwise_conv2d",
    "floor_mod",
    "gelu",
    "mean",
    "select",
    "softmax",
)
FEWER = ("average_pool2d", "softmax")


def quick(names: tuple[str, ...]) -> list[object]:
    """Return all ops; these always run, the others only in slow tests."""
    return [
        name if name in names else pytest.param(name, marks=pytest.mark.slow)
        for name in WITH_KERNELS
    ]


SHORT, SHORTER = quick(SELECTED_OPS), quick(FEWER)
pytestmark = needs_compiler


def check(name: str, device: DeviceInfo, options: KernelOptions, folder: Path) -> None:
    item = trial(registry()[name])
    plan = make_plan(rewrite(item.graph), device, options)
    assert plan.requirements.language == "cuda"
    item.check(play_on_host(plan, item.inputs, folder), TOLERANCE[options.precision])


@pytest.mark.parametrize("name", SHORT)
def test_in_full_precision(name: str, tmp_path: Path) -> None:
    check(name, PLAIN, KernelOptions("fp32"), tmp_path)


@pytest.mark.parametrize("name", SHORT)
def test_with_matrix_units_and_warps(name: str, tmp_path: Path) -> None:
    check(name, BOARD, KernelOptions("mixed", form="list"), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_HALVES)
def test_in_half_precision(name: str, tmp_path: Path) -> None:
    check(name, PLAIN, KernelOptions("fp16"), tmp_path)


@pytest.mark.parametrize("name", SHORTER)
def test_as_one_launch(name: str, tmp_path: Path) -> None:
    """The persistent kernel with a single group: its table, stages, barriers and flags."""
    check(name, BOARD, KernelOptions("mixed", form="one"), tmp_path)


def test_as_one_launch_with_clocks(tmp_path: Path) -> None:
    check("softmax", BOARD, KernelOptions("mixed", form="one", clocked=True), tmp_path)
