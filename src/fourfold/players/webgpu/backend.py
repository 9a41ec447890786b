"""WebGPU as a back end: adapters of Metal, Vulkan and DX12, and two that stand for all of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from fourfold.device import DeviceInfo, Fact
from fourfold.lazy import lazy_import
from fourfold.plan import Plan, Program
from fourfold.players.protocol import Backend, BuiltProgram

if TYPE_CHECKING:
    from fourfold.players.webgpu import devices as found
    from fourfold.players.webgpu import facts, trials
    from fourfold.players.webgpu import memory as memories
    from fourfold.players.webgpu import player as players
    from fourfold.players.webgpu import timer as timers
else:
    # A start on another device has no use for any of them.
    facts = lazy_import("fourfold.players.webgpu.facts")
    found = lazy_import("fourfold.players.webgpu.devices")
    memories = lazy_import("fourfold.players.webgpu.memory")
    players = lazy_import("fourfold.players.webgpu.player")
    timers = lazy_import("fourfold.players.webgpu.timer")
    trials = lazy_import("fourfold.players.webgpu.trials")


class WebGpuBackend(Backend):
    """Whatever GPU has a driver for one of the APIs that wgpu-native knows."""

    name = "webgpu"
    # What OpenCL offers is there already, and faster; asking drivers of a second API takes time.
    listed = False
    last_resort = True
    has_binaries = False
    platforms: tuple[str, ...] = ("metal", "vulkan", "dx12")

    def devices(self) -> tuple[DeviceInfo, ...]:
        return found.devices()

    def find_board(self, name: str, units: int | None) -> DeviceInfo | None:
        """Those that stand for all: 'webgpu:any', 'webgpu:software'."""
        make = facts.BOARDS.get(name)
        return None if make is None else make(units)

    def probe(self, device: DeviceInfo, names: Collection[str]) -> dict[str, Fact]:
        return trials.probe(device, names)

    def build_binary(self, device: DeviceInfo, program: Program) -> bytes:
        """There is none: the text is all that a device is given."""
        return b""

    def make_player(
        self, device: DeviceInfo, plan: Plan, program: BuiltProgram | None = None
    ) -> players.Player:
        return players.Player(device, plan)

    def make_memory(self, device: DeviceInfo, size: int) -> memories.WebGpuMemory:
        return memories.WebGpuMemory(device, size)

    def import_memory(self, device: DeviceInfo, given: Any) -> memories.WebGpuMemory | None:
        """Our own; no other library has memory of our device."""
        own = isinstance(given, memories.WebGpuMemory) and given.device == device
        return given if own else None

    def make_timer(self, device: DeviceInfo, plan: Plan) -> timers.LaunchTimer:
        return timers.LaunchTimer(device, plan)
