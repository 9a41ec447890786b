"""Convolutions divided into blocks of pixels are bit-equal to those without blocks."""

from __future__ import annotations

import numpy as np
import pytest
from random_graphs import build

from fourfold.backends import make_player
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.ops.kernels.conv import tiled

NETWORK = """
input x: f32[3,17,13,11]
const w0: f32[37,1,1,11]
const w1: f32[19,3,3,37]
a = conv2d(x, w0) |> relu6
b = conv2d(a, w1; stride=(2,1), padding=Padding(1,1,0,1))
output b
"""


@pytest.mark.devices(takes=lambda device: device.is_cpu)
@pytest.mark.parametrize("precision", ["fp32", "mixed"])
@pytest.mark.parametrize("near", [700, 5000])
def test_blocks_are_bit_equal(
    device: DeviceInfo, precision: str, near: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = rewrite(build(NETWORK), verify=True)
    x = np.random.default_rng(3).uniform(-1, 1, (3, 17, 13, 11)).astype(np.float32)
    results = []
    for far in (1 << 40, near):
        monkeypatch.setattr(tiled, "SHARED_CACHE_BYTES", far)
        monkeypatch.setattr(tiled, "L2_INPUT_BYTES", near)
        plan = make_plan(graph, device, KernelOptions(precision, form="list"))
        player = make_player(device, plan)
        player.poison()
        results.append(player.run([x])[0])
        player.close()
        blocks = [launch.grid[2] for launch in plan.launches if launch.title.startswith("conv2d")]
        assert all(count > 1 for count in blocks) == (far == near)
    assert not np.isnan(results[1]).any()
    np.testing.assert_array_equal(results[0], results[1])
