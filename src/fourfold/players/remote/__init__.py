"""Plays plans on other machines: phones by adb, boards by ssh, with the player in C there."""

from __future__ import annotations

from fourfold.players.protocol import Backend
from fourfold.players.remote.backend import RemoteBackend

BACKENDS: tuple[Backend, ...] = (RemoteBackend("adb"), RemoteBackend("ssh"))
