"""Binaries that a driver rejects, or that crash the process, are replaced by building from text."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import pytest
from faults.setting import World
from tiny_plan import line

from fourfold.backends.opencl import OpenCLBackend
from fourfold.store.keys import program_parts
from fourfold.store.store import Store


def put(world: World, binary: bytes) -> None:
    parts = program_parts(line().plan.program, world.device)
    world.store.put_binary("model.bin", parts, binary)


@pytest.mark.parametrize("binary", [b"junk", b"\x7fELF" + bytes(100), b"0"])
def test_rejected_binary_is_quarantined_and_rebuilt(
    world: World, binary: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.start()
    put(world, binary)
    # Some drivers crash on junk instead.
    monkeypatch.setattr(OpenCLBackend, "load_program", lambda *_: None)
    assert world.start() == "store"
    assert len(world.said) == 1
    assert "refused a cached binary" in world.said[0]
    assert [why for _, why, _ in world.store.quarantined()] == ["the driver refused it"]
    assert world.start() == "store"
    assert "not used" in world.said[0]


def load_and_die(folder: str, binary: bytes) -> None:
    with Store(Path(folder)).loading(binary) as allowed:
        assert allowed
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.skipif(os.name == "nt", reason="processes are not killed by signals there")
def test_binary_that_crashes_a_process_is_quarantined(world: World) -> None:
    world.start()
    put(world, b"poison")
    child = multiprocessing.get_context("spawn").Process(
        target=load_and_die, args=(str(world.folder), b"poison")
    )
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    assert world.start() == "store"  # the result is checked there: text was built
    assert world.said == ["a cached binary is not used, because its load killed a process"]
    assert [why for _, why, _ in world.store.quarantined()] == ["its load killed a process"]
    assert world.start() == "store"


def test_concurrent_load_is_not_taken_for_a_crash(world: World) -> None:
    store = world.store
    with store.loading(b"fine") as first, Store(world.folder).loading(b"fine") as second:
        assert (first, second) == (True, True)
    assert store.quarantined() == []


def test_load_marker_is_removed_after_success(world: World) -> None:
    store = world.store
    with store.loading(b"fine"):
        pass
    with store.loading(b"fine") as allowed, store.database.reading() as database:
        assert allowed
        assert database.execute("SELECT COUNT(*) FROM loading").fetchone() == (0,)


def test_interrupted_load_is_not_taken_for_a_crash(world: World) -> None:
    with pytest.raises(KeyboardInterrupt), world.store.loading(b"fine"):
        raise KeyboardInterrupt
    assert world.store.quarantined() == []
    with world.store.loading(b"fine") as allowed:
        assert allowed
