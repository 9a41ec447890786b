"""find_mean: an average pool with a window as large as the image is a mean."""

from __future__ import annotations

import pytest
from random_graphs import assert_rewrites, brief, build

from fourfold.compiler.rewrite.find_mean import find_mean

HEAD = "input x: f32[2,5,3,7]\n"
STAYS = {
    "a smaller window": "filter=(5, 2), stride=(1, 1)",
    "padding": "filter=(5, 3), stride=(1, 1), padding=Padding(1, 0, 0, 0)",
}


@pytest.mark.parametrize("stride", ["(1, 1)", "(5, 3)"])
def test_a_mean(stride: str) -> None:
    before = f"{HEAD}y = average_pool2d(x; filter=(5, 3), stride={stride})\noutput y"
    assert_rewrites(find_mean, before, "y = mean(x; axes=(1, 2), keep_dims=True)")


@pytest.mark.parametrize("name", STAYS)
def test_keeps_other_pools(name: str) -> None:
    graph = build(f"{HEAD}y = average_pool2d(x; {STAYS[name]})\noutput y")
    assert brief(find_mean(graph)) == brief(graph)
