"""Every op on WebGPU, on any available adapter, against the NumPy reference.

fp32 with GPU kernels is part of the quick tests, the rest of the slow ones. All other op tests run
on WebGPU with `--device webgpu`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from op_kernels import WITH_KERNELS
from op_trials import IN_HALVES
from ops.test_ops import check
from webgpu_device import device, needs_webgpu

from fourfold.codegen.context import KernelOptions
from fourfold.device import DeviceInfo
from fourfold.ops.base import registry

pytestmark = needs_webgpu


def check_on_webgpu(name: str, precision: str, like: DeviceInfo) -> None:
    check(registry()[name], device(), KernelOptions(precision, form="list"), like)


def a_gpu() -> DeviceInfo:
    """Return the device with the facts of a plain GPU with cooperating work-groups."""
    return replace(device(), kind="gpu", local_memory=16384, max_work_group=256, measured_units=16)


@pytest.mark.parametrize("name", WITH_KERNELS)
def test_in_full_precision(name: str) -> None:
    check_on_webgpu(name, "fp32", a_gpu())


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "mixed"])
@pytest.mark.parametrize("name", WITH_KERNELS)
def test_with_the_device_facts(name: str, precision: str) -> None:
    check_on_webgpu(name, precision, device())


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_KERNELS)
def test_in_mixed_precision(name: str) -> None:
    check_on_webgpu(name, "mixed", a_gpu())


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_HALVES)
def test_in_half_precision(name: str) -> None:
    if not device().half_arithmetic:
        pytest.skip("it has no fp16 arithmetic")
    check_on_webgpu(name, "fp16", a_gpu())
