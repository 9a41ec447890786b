"""A machine whose player, driver and shell answer anything; only our errors may come of it."""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from fuzz.hostile_values import TEXTS, forge_line
from tiny_plan import COUNT, X, line

from fourfold.backends.protocol import LaunchOutput
from fourfold.backends.remote import devices, machine, probe
from fourfold.backends.remote.link import Answer, Link
from fourfold.backends.remote.player import Player
from fourfold.backends.remote.timer import LaunchTimer
from fourfold.device import PROBED, DeviceInfo
from fourfold.errors import BuildError, DeviceError
from fourfold.plan import Section, container_bytes
from fourfold.types import DType

DEVICE: dict[str, Any] = {
    "device": 0,
    "name": "GPU",
    "vendor": "V",
    "platform": "P",
    "driver": "1",
    "kind": "gpu",
    "version": "OpenCL 3.0",
    "compute_units": 4,
    "memory": 1 << 30,
    "max_allocation": 1 << 28,
    "max_work_group": 256,
    "local_memory": 1 << 15,
    "alignment": 128,
    "unified_memory": True,
    "address_bits": 64,
    "language_version": "3.0",
    "uuid": "",
    "image_texels": 1 << 16,
    "extensions": ["cl_khr_fp16", "cl_khr_subgroup_shuffle"],
    "multiplies_bytes": False,
}
FOLDER = "folder=/tmp/fourfold-x\nold=/tmp/old\nmachine=x86_64\nabi=\n"
STEPS: dict[str, Any] = {
    "time": {"seconds": 0.001},
    "replay": {"seconds": [0.001]},
    "run": {"seconds": [0.001]},
    "profile": {"seconds": [0.001]},
    "compare": {"nan_differs": False, "largest": 0.0, "scale": 1.0},
    "binary": {"file": "entry"},
}
OPENED = {"opened": {"open": 0.2, "build": 0.1, "program": "source"}}
FAILED = {"error": "no memory", "status": "memory", "log": "error: none"}
SHARE_OF_FORGERIES = 0.2


class _Process:
    """The player with a plan open: every step that is written gets a line."""

    def __init__(self, say: Callable[[Any], str]) -> None:
        self._say, self._lines, self.returncode = say, deque([say(OPENED)]), 0
        self.stdin, self.stdout, self.stderr = self, self, None

    def write(self, text: str) -> None:
        for step in text.splitlines():
            self._lines.append(self._say(STEPS.get(step.split()[0], {})))

    def __iter__(self) -> Iterator[str]:
        while self._lines:
            yield self._lines.popleft()

    def flush(self) -> None:
        """There is nothing to wait for."""

    close = kill = flush

    def wait(self, timeout: float = 0) -> int:
        return 0


class HostileLink(Link):
    """A machine that answers as the C player does, but for a share of its answers."""

    api = "ssh"

    def __init__(self, rng: random.Random) -> None:
        super().__init__("fuzz")
        self._rng = rng

    def _say(self, record: Any) -> str:
        if self._rng.random() >= SHARE_OF_FORGERIES:
            return json.dumps(record) + "\n"
        return forge_line(FAILED if self._rng.random() < 0.2 else record, self._rng) + "\n"

    def run(self, command: str, timeout_s: float = 0) -> Answer:
        if self._rng.random() < SHARE_OF_FORGERIES / 4:
            return Answer(self._rng.choice(TEXTS), self._rng.choice((0, 0, 1, 3, 126)))
        if "--probe" in command:
            lines = "".join(self._say({**DEVICE, "device": number}) for number in range(2))
            return Answer(lines, self._rng.choice((0, 0, 0, 0, 3, 1)))
        return Answer(FOLDER if "mkdir" in command else "status 1\nlevel x\n", 0)

    def open(self, command: str) -> Any:
        return _Process(self._say)

    def push(self, path: object, remote: str) -> None:
        """Take any file."""

    def pull(self, remote: str, path: Any) -> None:
        whole = container_bytes([Section("key", b"{}"), Section("binary", b"code")])
        content = whole if remote.endswith("entry") else bytes(4 * COUNT)
        kind = self._rng.random()
        if kind < SHARE_OF_FORGERIES / 3:
            Path(path).mkdir()
        elif kind < SHARE_OF_FORGERIES:
            Path(path).write_bytes(content[: self._rng.randrange(len(content))])
        else:
            Path(path).write_bytes(content)

    def explain(self, said: str) -> tuple[str, str]:
        return "it does not answer", "ask again"


def _use_player(info: DeviceInfo) -> None:
    player = Player(info, line().plan)
    try:
        player.run([X])
        player.profile([X], 1)
        player.run_seconds([X], 1)
        player.replay_seconds(1)
        player.binary()
    finally:
        player.close()


def _use_timer(info: DeviceInfo) -> None:
    timer = LaunchTimer(info, line().plan)
    try:
        timer.read(0, np.dtype(np.float32), COUNT)
        timer.seconds_of_all([range(1), range(1)], 1)
        timer.differences([LaunchOutput(range(1), 0, DType.F32, COUNT)] * 2)
    finally:
        timer.close()


def _use_probes(info: DeviceInfo) -> None:
    probe.probe(info, PROBED)


USES: Sequence[Callable[[DeviceInfo], None]] = (_use_player, _use_player, _use_timer, _use_probes)


def try_remote(seed: int) -> str:
    """Return whether the devices of a hostile machine were 'used' or 'refused'."""
    rng = random.Random(f"remote {seed}")
    link = HostileLink(rng)
    with ExitStack() as patches:
        patches.enter_context(patch.object(devices, "_link", lambda api, host: link))
        patches.enter_context(patch.object(machine, "build_player", lambda *a: Path("player")))
        patches.enter_context(patch.object(machine, "Config", _NoCache))
        try:
            info = devices.reach_device("ssh", "fuzz")
            repr(info), str(info), info._repr_html_()
            rng.choice(USES)(info)
        except (DeviceError, BuildError):
            return "refused"
    return "used"


class _NoCache:
    """Settings with a cache folder, so that the fake player is not removed."""

    cache = "cache"

    @staticmethod
    def from_environment() -> type[_NoCache]:
        return _NoCache
