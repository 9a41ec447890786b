"""Steps of the remote player agree with NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from remote.machine_setup import SERIAL, FakeMachine

from fourfold.backends import find_device
from fourfold.backends.protocol import LaunchOutput
from fourfold.backends.remote.devices import machine_of
from fourfold.backends.remote.probe import KernelCall, ProbeCall, _plan
from fourfold.backends.remote.steps import PlanProcess, StepFailed, send_plan
from fourfold.backends.remote.timer import LaunchTimer
from fourfold.backends.timing import difference_of
from fourfold.plan import ARENA, BufferUse, Program
from fourfold.types import DType

pytestmark = pytest.mark.needs_device
FIRST_BUFFER = 2  # number of the first buffer after arena and constants
COUNT = 16
TYPES = (DType.F16, DType.F32, DType.F64, DType.I8, DType.U8, DType.I16, DType.I32, DType.BOOL)
# Each kernel writes one float per work-item into the arena; some write wrong values.
KERNELS = """
__kernel void good(__global uchar *base, long at)
{ ((__global float *)(base + at))[get_global_id(0)] = get_global_id(0); }
__kernel void near(__global uchar *base, long at)
{ ((__global float *)(base + at))[get_global_id(0)] = get_global_id(0) + 0.25f; }
__kernel void half_done(__global uchar *base, long at)
{ if (get_global_id(0) < 8) ((__global float *)(base + at))[get_global_id(0)] = get_global_id(0); }
"""


def plan_of(*names: str, arrays: int = 1) -> ProbeCall:
    kernels = tuple(KernelCall(name, (COUNT,), (1,)) for name in names)
    return ProbeCall(Program(KERNELS, ""), kernels, (np.zeros(COUNT, np.float32),) * arrays)


@pytest.fixture
def process(machine: FakeMachine) -> Iterator[PlanProcess]:
    device = find_device(f"adb:{SERIAL}")
    with machine_of(device) as opened:
        send_plan(opened, "plan.fourfold", device, _plan(plan_of("good", "near", arrays=2)))
        result = PlanProcess(opened, "steps", KERNELS, "plan.fourfold", "--device", "0")
        result.machine = opened  # type: ignore[attr-defined]
        yield result
        result.close()


def fill_buffer(process: PlanProcess, number: int, array: np.ndarray) -> None:
    name = process.machine.send(array.view(np.uint8).data)  # type: ignore[attr-defined]
    process.ask(f"fill {number} 0 {name}")


def changed_pair(dtype: DType, how: str) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers, and a copy with one of them changed."""
    kind = dtype.numpy
    expected = np.random.default_rng(7).uniform(-90, 90, 64 // kind.itemsize).astype(kind)
    result = expected.copy()
    if how == "one":
        result[3] = expected[3] == 0 if dtype is DType.BOOL else result[3] + kind.type(2)
    elif dtype.is_float and how != "nothing":
        result[5] = np.inf if how == "infinite" else np.nan
        expected[5] = np.nan if how == "same nan" else expected[5]
    return result, expected


def test_differences_agree_with_numpy(process: PlanProcess) -> None:
    changes = ("nothing", "one", "nan", "infinite", "same nan")
    for dtype, how in product(TYPES, changes):
        result, expected = changed_pair(dtype, how)
        fill_buffer(process, FIRST_BUFFER, expected)
        process.ask(f"keep {FIRST_BUFFER} 0 64")
        fill_buffer(process, FIRST_BUFFER, result)
        answer = process.ask(f"compare {FIRST_BUFFER} 0 64 {dtype.value}")
        expected_value = difference_of(result.astype(np.float32), expected.astype(np.float32))
        if np.isfinite(expected_value.largest):
            assert answer.number("largest") == pytest.approx(expected_value.largest, rel=1e-6), (
                dtype,
                how,
            )
            assert answer.number("scale") == pytest.approx(expected_value.scale, rel=1e-6), (
                dtype,
                how,
            )
            assert answer.flag("nan_differs") is expected_value.in_nans, (dtype, how)
        else:
            assert answer.flag("nan_differs") is True  # no number where one is expected


def test_rejects_unknown_types(process: PlanProcess) -> None:
    process.ask(f"keep {FIRST_BUFFER} 0 64")
    for name in ("f8", "DType.F32", "x32", "i24", "i"):
        with pytest.raises(StepFailed, match="unknown type"):
            process.ask(f"compare {FIRST_BUFFER} 0 64 {name}")


def test_rejects_comparing_other_bytes(process: PlanProcess) -> None:
    with pytest.raises(StepFailed, match="the number of bytes differs"):
        process.ask(f"compare {FIRST_BUFFER} 0 64 f32")


def test_sends_many_steps_at_once(process: PlanProcess) -> None:
    answers = process.ask_all(["time 0 1 2", "nonsense", "time 1 1 2"] * 70)
    assert len(answers) == 210
    assert all(answer["seconds"] > 0 for answer in answers[::3])
    assert all("error" in answer for answer in answers[1::3])


def test_compares_candidates_with_the_first(machine: FakeMachine) -> None:
    """Candidates that write too little, or cannot run, are rejected."""
    device = find_device(f"adb:{SERIAL}")
    call = plan_of("good", "good", "near", "half_done")
    plan = _plan(call)
    in_arena = (BufferUse(ARENA, 0),)
    launches = tuple(one._replace(arguments=in_arena) for one in plan.launches)
    timer = LaunchTimer(device, replace(plan, launches=launches))
    timer.fill(np.zeros(64, np.uint8))
    outputs = [LaunchOutput(range(n, n + 1), 0, DType.F32, COUNT) for n in range(4)]
    first, same, near, too_little = timer.differences(outputs)
    assert (first, same) == ((False, 0.0, 0.0), (False, 0.0, 15.0))
    assert near == (False, 0.25, 15.0)
    assert too_little is not None
    assert too_little.in_nans
    nowhere = [outputs[0], LaunchOutput(range(7, 9), 0, DType.F32, COUNT)]
    assert timer.differences(nowhere)[1] is None
    assert all(seconds > 0 for seconds in timer.seconds_of_all([range(4), range(1)], 3))
    np.testing.assert_array_equal(timer.read(0, np.dtype(np.float32), 4), np.arange(4))
    timer.close()
    assert machine.left == []
