"""A cable cut at any time raises an error that says so, and repeating the command continues."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from remote.machine_setup import SERIAL, FakeMachine
from small_networks import small_onnx

import fourfold
from fourfold.backends import probing
from fourfold.cli import main
from fourfold.errors import DeviceError
from fourfold.store.prepared import Prepared

pytestmark = pytest.mark.needs_device
MAX_CUTS = 8


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "small.onnx"
    path.write_bytes(small_onnx())
    return path


def prepare_arguments(model: Path, *more: str) -> list[str]:
    output = model.with_suffix(".fourfold")
    tuning = ("--tune", "rapid", "--deadline", "60")
    return [
        "prepare",
        str(model),
        "-o",
        str(output),
        "--only-here",
        "--adb",
        SERIAL,
        *tuning,
        *more,
    ]


def prepare(model: Path) -> bool:
    """Return True on success; otherwise the cable was cut, and the command reports it."""
    probing._states.clear()  # as in a new process
    done = CliRunner().invoke(main, prepare_arguments(model))
    assert done.exit_code == 0 or "cannot be reached" in done.output, done.output
    return done.exit_code == 0


def cut_and_repeat(machine: FakeMachine, model: Path, step: int) -> None:
    """Prepare with a cable that is cut at a step, and then once more."""
    output = model.with_suffix(".fourfold")
    output.unlink(missing_ok=True)
    machine.forget_calls()
    machine.set(cut_at=step)
    assert not prepare(model)
    assert not output.exists()
    machine.set(cut_at=None)
    assert prepare(model)
    assert Prepared.open(str(output)).index["binaries"]
    assert machine.left == []


def count_preparation_steps(machine: FakeMachine, model: Path) -> int:
    assert prepare(model)
    return machine.calls


@pytest.fixture
def new_store(
    tmp_path: Path, compiled_players: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], None]:
    """Return a function that switches to a new cache with only the player in it."""
    numbers = count()

    def change() -> None:
        folder = tmp_path / f"store{next(numbers)}"
        folder.mkdir(mode=0o700)
        (folder / "players").symlink_to(compiled_players)
        monkeypatch.setenv("FOURFOLD_CACHE", os.fspath(folder))

    return change


def test_repeated_cuts_make_progress(
    machine: FakeMachine, model: Path, new_store: Callable[[], None]
) -> None:
    """Each attempt is cut halfway; earlier results are kept."""
    steps = count_preparation_steps(machine, model)
    assert steps > 50
    new_store()
    model.with_suffix(".fourfold").unlink()
    machine.set(cut_at=steps // 2)
    cuts = 0
    while not model.with_suffix(".fourfold").exists():
        machine.forget_calls()
        cuts += not prepare(model)
        assert cuts < MAX_CUTS
    assert cuts >= 1
    assert machine.left == []


@pytest.mark.slow
def test_cable_may_be_cut_at_each_step(
    machine: FakeMachine, model: Path, new_store: Callable[[], None]
) -> None:
    steps = count_preparation_steps(machine, model)
    for step in range(steps):
        new_store()
        cut_and_repeat(machine, model, step)


def test_remote_disk_may_fill_up(machine: FakeMachine, model: Path) -> None:
    with fourfold.Session(str(model), device=f"adb:{SERIAL}") as session:
        inputs = {one.name: np.zeros(one.shape, one.dtype) for one in session.inputs}
        machine.set(room=10)
        with pytest.raises(DeviceError, match="No space left"):
            session.run(inputs)
        machine.set(room=None)
        session.run(inputs)
    assert machine.left == []


def test_control_c_leaves_nothing_behind(machine: FakeMachine, model: Path) -> None:
    """A separate process is interrupted after it started work on the machine."""
    code = "from fourfold.cli import main; main()"
    child = subprocess.Popen(
        [sys.executable, "-c", code, *prepare_arguments(model)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while child.poll() is None and not any(
        path.suffix == ".fourfold" for path in machine.temporary.glob("*/*")
    ):
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=120)
    assert child.returncode == 130
    assert machine.left == []
    assert not model.with_suffix(".fourfold").exists()


def test_leftovers_of_a_killed_process_are_removed(machine: FakeMachine, model: Path) -> None:
    code = "from fourfold.cli import main; main()"
    child = subprocess.Popen([sys.executable, "-c", code, *prepare_arguments(model)])
    while child.poll() is None and not machine.left:
        time.sleep(0.02)
    child.kill()
    child.wait()
    assert machine.left
    assert prepare(model)
    assert machine.left == []
