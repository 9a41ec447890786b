"""Every op and case, in every precision and on every device, against the NumPy reference.

All cases of an op are nodes of one graph, so that the device's compiler runs once for them.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from half_precision import skip_without_halves
from op_kernels import WITH_KERNELS
from op_trials import IN_HALVES, TOLERANCE, trial

from fourfold.backends import make_player
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.ops.base import Op, registry


def check(op: Op, device: DeviceInfo, options: KernelOptions, like: DeviceInfo) -> None:
    """Check the device's results of a plan for a similar device."""
    item = trial(op)
    player = make_player(device, make_plan(rewrite(item.graph, verify=True), like, options))
    player.poison()
    results = player.run([np.ascontiguousarray(array) for array in item.inputs])
    player.close()
    item.check(results, TOLERANCE[options.precision])


@pytest.mark.parametrize(
    ("name", "precision"),
    [*product(WITH_KERNELS, ["fp32", "mixed"]), *product(IN_HALVES, ["fp16"])],
)
def test_cases(name: str, precision: str, device: DeviceInfo) -> None:
    skip_without_halves(device, precision)
    check(registry()[name], device, KernelOptions(precision, form="list"), device)


@pytest.mark.devices(takes=lambda device: device.is_cpu)
@pytest.mark.parametrize("name", [name for name in WITH_KERNELS if registry()[name].variants])
def test_cases_with_gpu_kernels(name: str, device: DeviceInfo) -> None:
    """Run kernels with cooperating work-groups on a device that uses others."""
    like = replace(device, kind="gpu", compute_units=16, max_work_group=256, dot_products=False)
    check(registry()[name], device, KernelOptions(form="list"), like)
