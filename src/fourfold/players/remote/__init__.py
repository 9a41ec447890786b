"""Run plans on other machines with the C player: phones over adb, boards over ssh."""

from __future__ import annotations

from fourfold.players.protocol import Backend
from fourfold.players.remote.backend import RemoteBackend

BACKENDS: tuple[Backend, ...] = (RemoteBackend("adb"), RemoteBackend("ssh"))
