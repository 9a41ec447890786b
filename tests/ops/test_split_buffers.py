"""Constants and arenas larger than a device can allocate at once are split into several buffers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import interpreted_devices as devices
import numpy as np
import pytest
from allocations import Allocations
from small_networks import deep_onnx
from stateful_models import stream
from tiny_matrix import matrix

import fourfold
from fourfold.backends import make_player
from fourfold.compiler.compile import compile_model
from fourfold.device import DeviceInfo
from fourfold.options import CompileOptions
from fourfold.plan import CompiledModel, Container, Plan, container_bytes, read_plan
from fourfold.plan.record import plan_sections

INTERPRETED = (devices.PLAIN, devices.CPU, devices.IMAGES)
SIZE, CHANNELS = 16, 16
MODEL = deep_onnx(layers=6, channels=CHANNELS, size=SIZE)
LIMIT = 1 << 14  # bytes: enough for one value or the weights of one layer, not for two


def compiled(device: DeviceInfo, limit: int | None = LIMIT, model: bytes = MODEL) -> CompiledModel:
    small = device if limit is None else replace(device, max_allocation=limit)
    options = CompileOptions(saves_memory=True)  # so that both plans have the same kernels
    return compile_model(model, small, options)


def image() -> np.ndarray:
    numbers = np.random.default_rng(8).uniform(-1, 1, (1, SIZE, SIZE, CHANNELS))
    return numbers.astype(np.float32)


def played(device: DeviceInfo, plan: Plan) -> np.ndarray:
    player = make_player(device, plan)
    player.poison()
    (result,) = player.run([image()])
    player.close()
    assert result is not None
    return result


def test_a_plan_in_several_buffers_gives_the_same(device: DeviceInfo) -> None:
    whole, split = compiled(device, None).plan, compiled(device).plan
    blocks = [buffer for buffer in split.buffers if buffer.kind == "constants"]
    arenas = [buffer for buffer in split.buffers if buffer.kind == "arena"]
    assert len(blocks) == 6
    assert len(arenas) == 2
    assert max(buffer.bytes for buffer in split.buffers) <= LIMIT
    assert sum(block.bytes for block in blocks) == split.constants.nbytes
    np.testing.assert_allclose(played(device, split), played(device, whole), atol=1e-5)


def test_files_store_split_plans(device: DeviceInfo) -> None:
    made = compiled(device)
    file = container_bytes(plan_sections(made.plan))
    read = read_plan(Container(bytes(file), "it"), 0, 1, 2)
    assert read.buffers == made.plan.buffers
    np.testing.assert_array_equal(played(device, read), played(device, made.plan))


@pytest.mark.devices(takes=lambda device: device.api == "opencl")
def test_players_share_each_block(device: DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = compiled(device).plan
    allocations = Allocations(monkeypatch)
    players = [make_player(device, plan) for _ in range(2)]
    blocks = [buffer.bytes for buffer in plan.buffers if buffer.kind == "constants"]
    assert allocations.constants == blocks
    for player in players:
        player.close()
    assert allocations.held == 0


@pytest.mark.parametrize("info", INTERPRETED, ids=lambda info: info.name.partition(",")[0])
def test_a_session_on_a_small_device(info: DeviceInfo, tmp_path: Path) -> None:
    small = replace(info, max_allocation=LIMIT)
    with fourfold.Session(MODEL, info, cache=None) as session:
        expected = session.run(image())["layer5"]
    for origin in ("model", "store"):
        with fourfold.Session(MODEL, small, cache=tmp_path) as session:
            assert session.origin == origin
            assert session.plan.requirements.buffer_bytes <= LIMIT
            np.testing.assert_allclose(session.run(image())["layer5"], expected, atol=1e-4)


def test_states_have_their_initial_values(device: DeviceInfo) -> None:
    """The initial value of a variable is among the constants, in any buffer."""
    model = stream(start=0.5)
    whole, split = (compiled(device, limit, model).plan for limit in (None, 64))
    arrays = [np.ones(port.type.shape, port.type.dtype.numpy) for port in whole.inputs]
    results = []
    for plan in (whole, split):
        player = make_player(device, plan)
        results.append([player.run(arrays)[0] for _ in range(3)])
        player.close()
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)  # type: ignore[arg-type]


def test_plans_within_the_limit_are_unchanged(device: DeviceInfo) -> None:
    usual, large = compiled(device, None).plan, compiled(device, 1 << 40).plan
    assert usual.buffers == large.buffers
    assert usual.launches == large.launches
    assert usual.program == large.program
    assert np.array_equal(usual.constants, large.constants)


def test_a_tensor_beyond_the_limit_is_refused() -> None:
    small = replace(devices.PLAIN, max_allocation=32)
    plan = compile_model(matrix(), small, CompileOptions()).plan
    assert plan.requirements.buffer_bytes > 32
    assert "bytes in one buffer" in " ".join(plan.requirements.unmet(small))
