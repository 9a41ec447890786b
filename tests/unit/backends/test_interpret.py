"""The interpreter as a player and a backend."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from docs.tiny_model import tiny_model
from stateful_models import svdf
from tree_plans import floats, kernel_of, plan_of

import fourfold
from fourfold import backends
from fourfold.backends.interpreter import InterpretBackend
from fourfold.backends.interpreter.device import PLAIN_GPU, device
from fourfold.backends.interpreter.player import Player
from fourfold.backends.interpreter.timer import LaunchTimer
from fourfold.backends.null import NULL_GPU
from fourfold.codegen.expression import load
from fourfold.codegen.kernel import Kernel
from fourfold.device import PROBED
from fourfold.errors import DeviceError
from fourfold.plan import Plan
from fourfold.types import DType

X = np.arange(8, dtype=np.float32)


def doubling() -> Plan:
    kernel, (x,) = kernel_of("double", (8,))
    source, target = floats(kernel, "src"), floats(kernel, "dst", True)
    kernel.store(target, x, load(source, x, "float") * 2.0)
    return plan_of([kernel], {"src": X}, {"dst": "f32[8]"})


@pytest.mark.needs_device
def test_interpreter_is_found_by_name_and_not_listed() -> None:
    assert backends.find_device("interpret") == PLAIN_GPU
    assert backends.find_device("interpret:0").language == "tree"
    assert all(info.api != "interpret" for info in backends.devices())


@pytest.mark.needs_device
def test_interpreter_can_have_the_facts_of_any_device() -> None:
    for info in (NULL_GPU, *backends.devices()):
        result = device(info)
        assert (result.api, result.language) == ("interpret", "tree")
        assert result.compute_units == info.compute_units
        assert backends.probe(result, quantised=True) == result
        assert all(result.knows(fact) for fact in PROBED)
        facts = InterpretBackend().probe(result, ["subgroups", "matrix_units"])
        assert facts == {"subgroups": info.subgroups, "matrix_units": info.matrix_units}


def test_session_runs_on_the_interpreter() -> None:
    x = np.random.default_rng(3).uniform(-1, 1, (1, 32, 32, 3)).astype(np.float32)
    with fourfold.Session(tiny_model(), device="interpret") as session:
        assert session.device.api == "interpret"
        assert session.plan.requirements.language == "tree"
        output = session.run(x)["scores"]
    with fourfold.Session(tiny_model(), device="cpu") as session:
        expected = session.run(x)["scores"]
    np.testing.assert_allclose(output, expected, atol=1e-6)


def test_variables_persist_until_reset() -> None:
    """Runs of a stateful model differ, a reset restores the initial state, a profile changes
    nothing.
    """
    x = np.random.default_rng(4).uniform(-1, 1, (2, 7)).astype(np.float32)
    with fourfold.Session(svdf(), device="interpret") as session:
        first, second = (session.run(x)["y"] for _ in range(2))
        assert not np.array_equal(first, second)
        session.reset()
        np.testing.assert_array_equal(session.run(x)["y"], first)
        session.profile(x, runs=2)
        np.testing.assert_array_equal(session.run(x)["y"], second)


def test_player_runs_and_replays() -> None:
    player = Player(PLAIN_GPU, doubling())
    assert player.run([X])[0].tolist() == (2 * X).tolist()
    player.poison()
    player.replay()
    assert player.run([X + 1])[0].tolist() == (2 * X + 2).tolist()
    (seconds,) = player.profile([X], 2)
    assert seconds > 0
    assert set(player.timings) == {"build", "upload"}
    player.close()


def test_later_runs_do_not_overwrite_results() -> None:
    player = Player(PLAIN_GPU, doubling())
    (first,) = player.run([X])
    player.run([X + 5])
    assert first.tolist() == (2 * X).tolist()


def test_interpreter_has_no_binaries() -> None:
    with pytest.raises(DeviceError, match="no binary"):
        Player(PLAIN_GPU, doubling()).binary()
    backend = InterpretBackend()
    assert not backend.binaries_are_cheap(PLAIN_GPU)
    assert backend.load_program(PLAIN_GPU, doubling().program, b"any") is None
    assert backend.live_program(PLAIN_GPU, doubling().program) is None


def test_times_single_launches() -> None:
    kernel = Kernel("double", literal=True)
    memory = kernel.pointer("memory", DType.F32, None, writable=True)
    (x,) = kernel.ids(4)
    kernel.store(memory, x + 4, load(memory, x, "float") * 2.0)
    plan = with_memory_in_the_arena(plan_of([kernel], {}, {}, {"memory": "f32[8]"}))
    timer = LaunchTimer(PLAIN_GPU, plan)
    timer.fill(np.arange(8, dtype=np.float32).view(np.uint8))
    timer.blank(16, 16)
    assert np.isnan(timer.read(16, np.dtype(np.float32), 4)).all()
    assert timer.seconds(range(1), 3) > 0
    assert timer.read(16, np.dtype(np.float32), 4).tolist() == [0.0, 2.0, 4.0, 6.0]
    timer.close()


def with_memory_in_the_arena(plan: Plan) -> Plan:
    """Return the plan with its memory in the arena itself."""
    (launch,) = plan.launches
    (use,) = launch.arguments
    arena = plan.buffers[0]._replace(bytes=plan.buffers[use.buffer].bytes)
    launch = launch._replace(arguments=(use._replace(buffer=0),))
    return replace(plan, buffers=(arena, *plan.buffers[1:]), launches=(launch,))


def test_listing_devices_does_not_import_the_interpreter() -> None:
    """Listing devices imports the backend's class and none of is other modules."""
    code = (
        "import sys, fourfold.backends as players\n"
        "players.backends()\n"
        "print(*(name for name in sys.modules if 'interpreter.' in name or 'tree' in name))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
