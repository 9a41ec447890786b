"""Run plans with WebGPU: Metal, Vulkan and DX12 through wgpu-native."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from fourfold.backends.protocol import Backend, BuiltProgram
from fourfold.device import DeviceInfo, Fact
from fourfold.plan import Plan, Program
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold.backends.webgpu import devices as webgpu_devices
    from fourfold.backends.webgpu import facts
    from fourfold.backends.webgpu import memory as memories
    from fourfold.backends.webgpu import player as players
    from fourfold.backends.webgpu import probe as probes
    from fourfold.backends.webgpu import timer as timers
else:
    # Not needed for a session on another device.
    facts = lazy_import("fourfold.backends.webgpu.facts")
    webgpu_devices = lazy_import("fourfold.backends.webgpu.devices")
    memories = lazy_import("fourfold.backends.webgpu.memory")
    players = lazy_import("fourfold.backends.webgpu.player")
    timers = lazy_import("fourfold.backends.webgpu.timer")
    probes = lazy_import("fourfold.backends.webgpu.probe")


class WebGpuBackend(Backend):
    """GPUs with a driver for one of the APIs that wgpu-native supports."""

    name = "webgpu"
    # Devices of OpenCL are listed already, and faster; asking drivers of a second API takes time.
    listed = False
    last_resort = True
    has_binaries = False
    platforms: tuple[str, ...] = ("metal", "vulkan", "dx12")

    def devices(self) -> tuple[DeviceInfo, ...]:
        return webgpu_devices.devices()

    def find_board(self, name: str, units: int | None) -> DeviceInfo | None:
        """Return a generic device to prepare models for: 'webgpu:any', 'webgpu:software'."""
        make = facts.BOARDS.get(name)
        return None if make is None else make(units)

    def probe(self, device: DeviceInfo, names: Collection[str]) -> dict[str, Fact]:
        return probes.probe(device, names)

    def build_binary(self, device: DeviceInfo, program: Program) -> bytes:
        """Return nothing: programs are stored as text only."""
        return b""

    def make_player(
        self, device: DeviceInfo, plan: Plan, program: BuiltProgram | None = None
    ) -> players.Player:
        return players.Player(device, plan)

    def make_memory(self, device: DeviceInfo, size: int) -> memories.WebGpuMemory:
        return memories.WebGpuMemory(device, size)

    def import_memory(self, device: DeviceInfo, given: Any) -> memories.WebGpuMemory | None:
        """Return our own memory; other libraries cannot share memory of our device."""
        own = isinstance(given, memories.WebGpuMemory) and given.device == device
        return given if own else None

    def make_timer(self, device: DeviceInfo, plan: Plan) -> timers.LaunchTimer:
        return timers.LaunchTimer(device, plan)


BACKEND: Backend = WebGpuBackend()
