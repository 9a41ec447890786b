"""Fixtures: a machine at the end of a fake cable, and its own cache."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from pathlib import Path

import pytest
from remote.machine_setup import FakeMachine

from fourfold.backends import probing


@pytest.fixture(scope="session")
def compiled_players(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of compiled players, shared by all tests of a process."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler is installed")
    return tmp_path_factory.mktemp("players")


@pytest.fixture
def store(tmp_path: Path, compiled_players: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cache folder with only the player in it, and no known devices."""
    folder = tmp_path / "store"
    folder.mkdir(mode=0o700)
    (folder / "players").symlink_to(compiled_players)
    monkeypatch.setenv("FOURFOLD_CACHE", os.fspath(folder))
    monkeypatch.setattr(probing, "_states", defaultdict(probing._DeviceState))
    return folder


@pytest.fixture
def machine(tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    result = FakeMachine(tmp_path / "machine")
    monkeypatch.setenv("FAKE_MACHINE", os.fspath(result.folder))
    monkeypatch.setenv("PATH", f"{result.commands}{os.pathsep}{os.environ['PATH']}")
    return result
