"""Run plans in NumPy, work-item by work-item, and check their kernels for errors."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, cast

from fourfold.backends.protocol import Backend, BuiltProgram, DeviceMemory, LaunchTimer, Player
from fourfold.device import DeviceInfo, Fact
from fourfold.errors import DeviceError
from fourfold.plan import Plan, Program
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold.backends import host_memory
    from fourfold.backends.interpreter import device as devices
    from fourfold.backends.interpreter import kernel as kernels
    from fourfold.backends.interpreter import player as players
    from fourfold.backends.interpreter import timer as timers
else:
    # Not needed for a session on another device.
    host_memory = lazy_import("fourfold.backends.host_memory")
    devices = lazy_import("fourfold.backends.interpreter.device")
    kernels = lazy_import("fourfold.backends.interpreter.kernel")
    players = lazy_import("fourfold.backends.interpreter.player")
    timers = lazy_import("fourfold.backends.interpreter.timer")


class InterpretBackend(Backend):
    """Runs plans whose programs are kernel trees, with the facts of any device."""

    name = "interpret"
    listed = False
    has_binaries = False

    def devices(self) -> tuple[DeviceInfo, ...]:
        return (devices.PLAIN_GPU,)

    def with_threads(self, device: DeviceInfo, threads: int) -> DeviceInfo | None:
        """Return the device unchanged: the interpreter has one thread."""
        return device

    def probe(self, device: DeviceInfo, names: Collection[str]) -> dict[str, Fact]:
        """Return the facts of the device without a probe."""
        return {name: getattr(device, name) for name in names}

    def build_binary(self, device: DeviceInfo, program: Program) -> bytes:
        raise DeviceError(
            "kernel trees have no binary", "they are interpreted", "do not build binaries"
        )

    def make_player(
        self, device: DeviceInfo, plan: Plan, program: BuiltProgram | None = None
    ) -> Player:
        return players.Player(device, plan, cast("kernels.CompiledProgram | None", program))

    def make_memory(self, device: DeviceInfo, size: int) -> DeviceMemory:
        return host_memory.HostMemory(size)

    def import_memory(self, device: DeviceInfo, given: Any) -> DeviceMemory | None:
        return given if isinstance(given, host_memory.HostMemory) else None

    def make_timer(self, device: DeviceInfo, plan: Plan) -> LaunchTimer:
        return timers.LaunchTimer(device, plan)


BACKEND: Backend = InterpretBackend()
