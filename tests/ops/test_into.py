"""Players write outputs to the caller's arrays and skip outputs that are not requested."""

from __future__ import annotations

import numpy as np
import pytest
from small_networks import small_network

from fourfold.backends import find_device, make_player
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo


@pytest.mark.parametrize("launches", ["list", "one"])
@pytest.mark.parametrize("interpreted", [False, True], ids=["driver", "interpreted"])
def test_outputs_are_written_to_the_given_arrays(
    device: DeviceInfo, interpreted: bool, launches: str
) -> None:
    target = find_device("interpret") if interpreted else device
    plan = make_plan(rewrite(small_network()), target, KernelOptions(form=launches))
    player = make_player(target, plan)
    x = np.random.default_rng(3).uniform(-1, 1, plan.inputs[0].type.shape).astype(np.float32)
    expected = player.run([x])
    into = np.full((2, 5), np.nan, np.float32)
    player.poison()
    result = player.run([x], [None, into[1:]])
    assert result[0] is None
    assert np.shares_memory(result[1], into)
    np.testing.assert_array_equal(into[1:], expected[1])
    assert np.isnan(into[0]).all()
    player.close()
