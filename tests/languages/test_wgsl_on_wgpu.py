"""Ops in WGSL, played by wgpu on whatever Vulkan there is, against their NumPy references."""

from __future__ import annotations

import pytest
from op_kernels import WITH_KERNELS
from ops.test_ops import JUMPING, TOLERANCE, complaint, trial
from wgsl_on_wgpu import HALVES, LEAST, computes_halves, find_device, play_on_wgpu

from fourfold.device import DeviceInfo
from fourfold.kernel.context import KernelOptions
from fourfold.lower import make_plan
from fourfold.op.registry import registry
from fourfold.rewrite import rewrite

pytestmark = pytest.mark.skipif(find_device() is None, reason="no wgpu, or no Vulkan for it")


def check(name: str, device: DeviceInfo, options: KernelOptions) -> None:
    op = registry()[name]
    item = trial(op, op.cases)
    plan = make_plan(rewrite(item.graph), device, options)
    assert plan.requirements.language == "wgsl"
    results = play_on_wgpu(plan, item.inputs)
    wrong = []
    for result, (output, wanted) in zip(results, item.expected.items(), strict=True):
        case = op.cases[int(output[3:].split("_")[0])]
        found = complaint(result, wanted, TOLERANCE[options.precision] * case.tolerance)
        wrong += [f"{case.inputs} {case.attributes}: {found}"] if found else []
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", WITH_KERNELS)
def test_in_full_precision(name: str) -> None:
    check(name, LEAST, KernelOptions("fp32"))


@pytest.mark.parametrize("name", WITH_KERNELS)
def test_in_mixed_precision(name: str) -> None:
    check(name, LEAST, KernelOptions("mixed"))


@pytest.mark.parametrize("name", WITH_KERNELS)
def test_in_half_precision(name: str) -> None:
    if not computes_halves():
        pytest.skip("this device does not compute in half precision")
    if name in JUMPING:
        pytest.skip("what half precision rounds may jump to the next whole number")
    check(name, HALVES, KernelOptions("fp16"))
