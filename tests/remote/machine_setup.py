"""A machine at the end of a fake cable: its content and its failures."""

from __future__ import annotations

import json
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SERIAL = "FAKE0123"
HOST = "board.local"


class FakeMachine:
    """A phone and a board in one: a folder, reached with `adb` and with `ssh`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary = folder / "data" / "local" / "tmp"
        self.temporary.mkdir(parents=True)
        (folder / "bin").mkdir()
        self.commands = folder / "commands"
        self.commands.mkdir()
        script = Path(__file__).with_name("fake_links.py")
        for name in ("adb", "ssh"):
            result = self.commands / name
            result.write_text(f"#!{sys.executable}\n{script.read_text()}")
            result.chmod(0o755)
        self._state: dict[str, Any] = {"attached": {SERIAL: "device"}, "environment": drivers()}
        self.set()

    def set(self, **state: Any) -> None:
        """Change attached devices or failures; None removes an entry."""
        self._state |= state
        (self.folder / "state.json").write_text(json.dumps(self._state))

    def answer(self, program: str, text: str) -> None:
        """Let a program of the machine print a text."""
        result = self.folder / "bin" / program
        result.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
        result.chmod(0o755)

    @property
    def calls(self) -> int:
        """Return the number of calls and returned lines."""
        path = self.folder / "calls"
        return path.stat().st_size if path.exists() else 0

    def forget_calls(self) -> None:
        (self.folder / "calls").unlink(missing_ok=True)

    @property
    def left(self) -> list[str]:
        """Return the content of the temporary folder."""
        return sorted(path.name for path in self.temporary.iterdir())

    def clean(self) -> None:
        shutil.rmtree(self.temporary)
        self.temporary.mkdir()


def drivers() -> dict[str, str]:
    """Return the environment in which the player finds the OpenCL drivers of this Python."""
    result = find_spec("pyopencl")
    for place in (result and result.submodule_search_locations) or ():
        for library in Path(place, ".libs").glob("libOpenCL*"):
            paths = {"LIBOPENCL_SO_PATH": str(library), "LD_LIBRARY_PATH": str(library.parent)}
            return {**paths, "PYOPENCL_HOME": os.fspath(place)}
    return {}
