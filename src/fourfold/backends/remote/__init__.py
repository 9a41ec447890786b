"""Run plans on other machines with the C player: phones over adb, boards over ssh."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from fourfold.backends.protocol import Backend, BuiltProgram, DeviceMemory
from fourfold.device import DeviceInfo, Fact
from fourfold.errors import DeviceError
from fourfold.plan import Plan, Program
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold.backends.remote import devices as remote_devices
    from fourfold.backends.remote import player as players
    from fourfold.backends.remote import probe as probes
    from fourfold.backends.remote import timer as timers
else:
    # Not needed for a session on a local device.
    remote_devices = lazy_import("fourfold.backends.remote.devices")
    players = lazy_import("fourfold.backends.remote.player")
    probes = lazy_import("fourfold.backends.remote.probe")
    timers = lazy_import("fourfold.backends.remote.timer")


class RemoteBackend(Backend):
    """OpenCL devices of machines reached over 'adb' or 'ssh'."""

    listed = False

    def __init__(self, name: str) -> None:
        self.name = name

    def devices(self) -> tuple[DeviceInfo, ...]:
        """Return the devices of all attached phones; ssh hosts cannot be listed."""
        return remote_devices.attached_devices() if self.name == "adb" else ()

    def reach(self, name: str) -> DeviceInfo | None:
        return remote_devices.reach_device(self.name, name)

    def probe(self, device: DeviceInfo, names: Collection[str]) -> dict[str, Fact]:
        return probes.probe(device, names)

    def load_program(self, device: DeviceInfo, program: Program, binary: bytes) -> BuiltProgram:
        """Return the binary: the C player falls back to the text if the driver rejects it."""
        return binary

    def build_binary(self, device: DeviceInfo, program: Program) -> bytes:
        return players.build_binary(device, program)

    def make_player(
        self, device: DeviceInfo, plan: Plan, program: BuiltProgram | None = None
    ) -> players.Player:
        return players.Player(device, plan, program if isinstance(program, bytes) else None)

    def make_memory(self, device: DeviceInfo, size: int) -> DeviceMemory:
        raise DeviceError(
            f"memory of {device.address} cannot be allocated",
            "the device is on another machine",
            "pass NumPy arrays",
        )

    def make_timer(self, device: DeviceInfo, plan: Plan) -> timers.LaunchTimer:
        return timers.LaunchTimer(device, plan)


BACKENDS: tuple[Backend, ...] = (RemoteBackend("adb"), RemoteBackend("ssh"))
