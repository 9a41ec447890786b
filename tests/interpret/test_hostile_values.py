"""No input value makes a kernel access memory outside of its tensors, as the interpreter checks."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hostile_values import ADDRESSED, hostile_trial
from interpreted_devices import NVIDIA, PLAIN, X86

from fourfold.backends import make_player
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.ops.base import registry

SETTINGS = {
    "plain": (PLAIN, KernelOptions("fp32", form="list")),
    "nvidia": (NVIDIA, KernelOptions("mixed", form="one")),
    "x86": (X86, KernelOptions("fp32", form="list")),
}
RUNS = 4


@pytest.mark.parametrize(("name", "setting"), [*product(ADDRESSED, SETTINGS)])
def test_kernels_stay_inside_their_tensors(name: str, setting: str) -> None:
    op, (device, options) = registry()[name], SETTINGS[setting]
    graph = rewrite(hostile_trial(op, 0).graph, verify=True)
    player = make_player(device, make_plan(graph, device, options))
    for seed in range(RUNS):
        only_indices = op.indices is not None and seed % 2 == 0
        item = hostile_trial(op, seed, only_indices)
        player.poison()
        results = player.run([np.ascontiguousarray(array) for array in item.inputs])
        if only_indices:
            item.check(results, 4e-3)
    player.close()
