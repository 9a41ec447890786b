"""Small teams of work-items that share a group give correct results for every team count."""

from __future__ import annotations

import numpy as np
import pytest
from interpreted_devices import KHR, PLAIN
from random_graphs import build

from fourfold.backends import make_player
from fourfold.backends.cpu.reference import evaluate
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo

DEVICES = [PLAIN, KHR]
LINES = {
    "softmax": "y = softmax(x)",
    "log_softmax": "y = log_softmax(x)",
    "l2_normalize": "y = l2_normalize(x)",
    "mean": "y = mean(x; axes=(1,), keep_dims=True)",
    "largest": "y = reduce_max(x; axes=(1,2), keep_dims=True)",
    "top": "y = top_indices(x; count=2)",
    "cumsum": "y = cumsum(x; axis=2)",
}
# Teams of 1, 2, 4, 8 and 32 work-items, in groups that they fill and in others.
SHAPES = [(97, 1, 3), (67, 3, 10), (33, 7, 28), (29, 9, 40), (8, 16, 40), (3, 17, 70)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
@pytest.mark.parametrize("like", DEVICES, ids=["plain", "khr"])
def test_teams_match_the_reference(
    like: DeviceInfo, line: str, shape: tuple[int, int, int]
) -> None:
    graph = build(f"input x: f32[{','.join(map(str, shape))}]\n{line}\noutput y")
    x = np.random.default_rng(3).uniform(-3, 3, shape).astype(np.float32)
    plan = make_plan(rewrite(graph, verify=True), like, KernelOptions(form="list"))
    player = make_player(like, plan)
    player.poison()
    (found,) = player.run([x])
    player.close()
    (wanted,) = evaluate(graph, {"x": x}).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_several_teams_share_a_group() -> None:
    """Guard: without shared groups, this file would test nothing."""
    for line, local in ((LINES["softmax"], (8, 8)), (LINES["mean"], (4, 16))):
        graph = build(f"input x: f32[33,7,40]\n{line}\noutput y")
        (launch,) = make_plan(rewrite(graph), PLAIN, KernelOptions(form="list")).launches
        assert launch.local == local
