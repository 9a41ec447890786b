"""An observable session start: a tiny plan in place of a compiled model, with recorded log
messages.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from tiny_plan import X, line

import fourfold
from fourfold.device import DeviceInfo
from fourfold.plan import CompiledModel
from fourfold.runtime import loading
from fourfold.store.store import Store
from fourfold.support import log

EXPECTED = 2.0 * X + 1.0


@dataclass
class World:
    """A model file, a cache folder, a device, and a record of what happened."""

    model: Path
    folder: Path
    device: DeviceInfo
    log: pytest.LogCaptureFixture
    made: int = 0
    origins: list[str] = field(default_factory=list)

    def compile(self, request: loading.Request, tuned: Mapping[str, str]) -> CompiledModel:
        self.made += 1
        return line(choices={"line": tuned.get("line")})

    @property
    def store(self) -> Store:
        return Store(self.folder)

    def start(self, source: Path | bytes | None = None) -> str:
        """Open the model, check the result, and return the origin of the plan."""
        log._said.clear()
        self.log.clear()
        expected = self.model if source is None else source
        trust = "all" if isinstance(expected, bytes) else None
        with fourfold.Session(expected, self.device, cache=self.folder, trust=trust) as session:
            outputs = session.run(X)
        assert np.array_equal(outputs["the y"], EXPECTED)
        self.origins.append(session.origin)
        return session.origin

    @property
    def said(self) -> list[str]:
        return [one.getMessage() for one in self.log.records if one.levelno >= logging.WARNING]

    def files(self, kind: str) -> list[Path]:
        return sorted((self.folder / "entries").glob(f"{kind}-*"))


def new_world(
    tmp_path: Path,
    device: DeviceInfo,
    log: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> World:
    model = tmp_path / "model.bin"
    model.write_bytes(b"\0\0\0\0TFL3 a model")
    world = World(model, tmp_path / "store", device, log)
    monkeypatch.setattr(loading, "compile_request", world.compile)
    monkeypatch.setenv("FOURFOLD_BINARIES", "always")
    return world
