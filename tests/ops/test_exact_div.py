"""exact_div returns the nearest float from any approximate quotient of a device."""

from __future__ import annotations

import numpy as np
import pytest
from random_graphs import build
from tree_plans import floats, kernel_of, plan_of, play

from fourfold.backends import make_player
from fourfold.codegen.context import KernelOptions
from fourfold.codegen.expression import bitcast, load
from fourfold.compiler.lower import make_plan
from fourfold.device import DeviceInfo
from fourfold.ops.exact_div import corrected

COUNT = 4096


def numbers(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return scales as in quantized models, and numbers of which many are at a rounding tie."""
    random = np.random.default_rng(seed)
    scales = random.uniform(1e-4, 3, COUNT).astype(np.float32)
    near = np.float32(random.integers(-255, 256, COUNT) + 0.5) * scales
    far = random.uniform(-300, 300, COUNT).astype(np.float32)
    return np.where(random.random(COUNT) < 0.7, near, far).astype(np.float32), scales


@pytest.mark.parametrize("units", [-3, -1, 0, 1, 2, 3])
def test_a_quotient_some_units_away_is_corrected(units: int) -> None:
    kernel, (x,) = kernel_of("quotients", (COUNT,))
    a, b = (load(floats(kernel, title), x, "float") for title in "ab")
    away = bitcast(bitcast(a / b, "int") + units, "float")
    kernel.store(floats(kernel, "dst", writable=True), x, corrected(away, a, b))
    given = dict(zip("ab", numbers(units + 3), strict=True))
    found = play(plan_of([kernel], given, {"dst": f"f32[{COUNT}]"}), given)["dst"]
    np.testing.assert_array_equal(found, given["a"] / given["b"])


@pytest.mark.parametrize("form", ["list", "auto"])
def test_quotients_are_those_of_numpy(device: DeviceInfo, form: str) -> None:
    text = f"input a: f32[{COUNT}]\ninput b: f32[{COUNT}]\ny = exact_div(a, b)\noutput y"
    a, b = numbers(9)
    a[:4], b[:4] = (np.inf, -np.inf, 1, 0), (2, 3, np.inf, 1)
    player = make_player(device, make_plan(build(text), device, KernelOptions(form=form)))
    (found,) = player.run([a, b])
    player.close()
    np.testing.assert_array_equal(found, a / b)
