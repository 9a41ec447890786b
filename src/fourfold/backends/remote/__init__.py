"""Run plans on other machines with the C player: phones over adb, boards over ssh."""

from __future__ import annotations

from fourfold.backends.protocol import Backend
from fourfold.backends.remote.backend import RemoteBackend

BACKENDS: tuple[Backend, ...] = (RemoteBackend("adb"), RemoteBackend("ssh"))
