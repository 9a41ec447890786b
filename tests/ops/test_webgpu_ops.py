"""Every op on WebGPU, by whatever adapter there is, against the NumPy reference.

Full precision is part of the quick tests, others of the slow ones. All other tests of ops run there
with `--device webgpu`.
"""

from __future__ import annotations

import pytest
from ops.test_ops import JUMPING, WITH_KERNELS, check
from webgpu_device import device, needs_webgpu

from fourfold.kernel.context import KernelOptions
from fourfold.op.registry import registry

pytestmark = needs_webgpu


def check_on_webgpu(name: str, precision: str) -> None:
    check(registry()[name], device(), KernelOptions(precision, form="list"), device())


@pytest.mark.parametrize("name", WITH_KERNELS)
def test_in_full_precision(name: str) -> None:
    check_on_webgpu(name, "fp32")


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_KERNELS)
def test_in_mixed_precision(name: str) -> None:
    check_on_webgpu(name, "mixed")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in WITH_KERNELS if name not in JUMPING])
def test_in_half_precision(name: str) -> None:
    if not device().half_arithmetic:
        pytest.skip("it does not compute in half precision")
    check_on_webgpu(name, "fp16")
