"""When launches become one, and how the work of its stages is cut."""

from __future__ import annotations

from dataclasses import replace

import pytest
from random_graphs import build

from fourfold.device import DeviceInfo
from fourfold.kernel.context import KernelOptions
from fourfold.kernel.opencl.joining import PersistentKernel
from fourfold.kernel.opencl.persistent import STATE_STRIDE
from fourfold.kernel.stage_table import cut_axis
from fourfold.lower import make_plan
from fourfold.plan import Plan
from fourfold.players.null import NULL_GPU

SPINS = replace(NULL_GPU, kind="cpu", compute_units=4, version="OpenCL 3.0 of a kind")
SLEEPS = replace(SPINS, version="OpenCL 3.0 HSTR: pthread-x86_64-unknown-linux-gnu-any")
CHAIN = """
input x: f32[1,{size},{size},8]
const w: f32[8,3,3,8]
a = conv2d(x, w)
b = conv2d(a, w)
c = conv2d(b, w)
d = conv2d(c, w)
output d
"""


def plan_of(size: int, device: DeviceInfo) -> Plan:
    return make_plan(build(CHAIN.format(size=size)), device, KernelOptions())


def test_little_work_is_one_launch_and_much_only_where_waiting_is_cheap() -> None:
    assert [len(plan_of(17, device).launches) for device in (SPINS, SLEEPS)] == [1, 1]
    assert [len(plan_of(257, device).launches) for device in (SPINS, SLEEPS)] == [4, 1]


def test_launches_that_move_much_stay_a_list_on_a_gpu() -> None:
    """A persistent kernel has few work-items a unit, which cannot keep much memory busy."""
    large = replace(NULL_GPU, compute_units=2, resident=True, max_work_group=1024)
    assert [len(plan_of(size, large).launches) for size in (17, 257)] == [1, 4]


def test_very_many_outputs_keep_the_list() -> None:
    """A stage chooses its buffers among all: no compiler takes hundreds of them."""
    names = [f"y{number}" for number in range(200)]
    nodes = "\n".join(f"{name} = tanh(x)" for name in names)
    graph = build(f"input x: f32[1,8]\n{nodes}\noutput {', '.join(names)}")
    assert len(make_plan(graph, SLEEPS, KernelOptions(form="one")).launches) == 200


def test_every_kind_is_a_function_of_its_own_where_groups_claim() -> None:
    """PoCL compiles the kernel's own body three times, and so whatever becomes a part of it."""
    text = plan_of(17, SLEEPS).program.text
    kinds = text.count("\nstatic void conv2d")
    assert text.count("noinline") - 1 == text.count("    case ") == kinds > 0


def test_many_cores_keep_the_list() -> None:
    assert len(plan_of(17, replace(SLEEPS, compute_units=17)).launches) == 4


@pytest.mark.parametrize(
    ("counts", "parts", "axis"),
    [
        ((7, 5, 1), 2, 0),
        ((1, 4, 64), 4, 1),
        ((1, 2, 64), 4, 2),
        ((3, 2, 1), 4, 0),
        ((1, 1, 1), 2, 0),
        ((1, 3, 1), 1, 1),
    ],
)
def test_a_stage_is_cut_along_pixels_if_there_are_enough(
    counts: tuple[int, ...], parts: int, axis: int
) -> None:
    assert cut_axis(counts, parts) == axis


@pytest.mark.parametrize("units", [1, 2, 31, 32, 97])
def test_the_state_has_room_for_every_thread_and_counter(units: int) -> None:
    device = replace(SLEEPS, compute_units=units)
    known = STATE_STRIDE * (1 + units // STATE_STRIDE)
    assert 1 + units <= known
    words = PersistentKernel().state_bytes(5, device) // 4
    assert words == STATE_STRIDE + known + 5 * (1 + units) * STATE_STRIDE
