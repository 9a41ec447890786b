"""Run plans on OpenCL devices."""

from __future__ import annotations

import threading
from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl import devices as opencl_devices
from fourfold.backends.opencl.player import Player, live_program
from fourfold.backends.opencl.program import (
    build_text,
    fetch_binary,
    has_cheap_binaries,
    has_slow_compiler_start,
    load_binary,
    warm_compiler,
)
from fourfold.backends.opencl.timer import LaunchTimer
from fourfold.backends.protocol import Backend, BuiltProgram
from fourfold.device import DeviceInfo, Fact
from fourfold.plan import Plan, Program
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold.backends.opencl import device_memory as memories
    from fourfold.backends.opencl import traced
    from fourfold.support.trace import Trace
else:
    memories = lazy_import("fourfold.backends.opencl.device_memory")
    traced = lazy_import("fourfold.backends.opencl.traced")


contexts = lazy_import("fourfold.backends.opencl.shared_context")
imports = lazy_import("fourfold.backends.opencl.import_memory")
probes = lazy_import("fourfold.backends.opencl.probe")  # not needed to start from the cache


class OpenCLBackend(Backend):
    """Devices of any OpenCL 1.2 driver."""

    name = "opencl"
    listed = True

    def devices(self) -> tuple[DeviceInfo, ...]:
        return opencl_devices.devices()

    def with_threads(self, device: DeviceInfo, threads: int) -> DeviceInfo | None:
        return opencl_devices.device_part(device, threads)

    def context_handle(self, device: DeviceInfo) -> int:
        pointer = opencl_devices.context_of(device).pointer
        return 0 if pointer is None else pointer.value or 0

    def shared_device(self, given: object) -> DeviceInfo | None:
        return cast("DeviceInfo | None", contexts.shared_device(given))

    def probe(self, device: DeviceInfo, names: Collection[str]) -> dict[str, Fact]:
        return cast("dict[str, Fact]", probes.probe(device, names))

    def begin_probe(self, device: DeviceInfo, names: Collection[str]) -> None:
        probes.begin_probe(device, names)

    def start_compiler(self, device: DeviceInfo) -> None:
        _start_compiler(device)

    def live_program(self, device: DeviceInfo, program: Program) -> cl.Program | None:
        return live_program(device, program)

    def load_program(
        self, device: DeviceInfo, program: Program, binary: bytes
    ) -> cl.Program | None:
        return load_binary(opencl_devices.context_of(device), binary, program.options)

    def binaries_are_cheap(self, device: DeviceInfo) -> bool:
        return has_cheap_binaries(device.platform)

    def build_binary(self, device: DeviceInfo, program: Program) -> bytes:
        return fetch_binary(build_text(opencl_devices.context_of(device), program))

    def make_player(
        self, device: DeviceInfo, plan: Plan, program: BuiltProgram | None = None
    ) -> Player:
        return Player(device, plan, cast("cl.Program | None", program))

    def make_clocked_player(self, device: DeviceInfo, plan: Plan) -> traced.ClockedPlayer:
        return traced.ClockedPlayer(device, plan)

    def make_traced_player(
        self, device: DeviceInfo, plan: Plan, trace: Trace
    ) -> traced.TracedPlayer:
        return traced.TracedPlayer(device, plan, trace)

    def make_memory(self, device: DeviceInfo, size: int) -> memories.OpenCLMemory:
        return memories.OpenCLMemory.make(device, size)

    def import_memory(self, device: DeviceInfo, given: Any) -> memories.OpenCLMemory | None:
        return cast("memories.OpenCLMemory | None", imports.import_memory(device, given))

    def make_timer(self, device: DeviceInfo, plan: Plan) -> LaunchTimer:
        return LaunchTimer(device, plan)


@cache
def _start_compiler(info: DeviceInfo) -> None:
    """Start a compiler with a slow start in a thread, while a plan is compiled."""
    if has_slow_compiler_start(info.platform) and info.compute_units > 1:
        threading.Thread(target=warm_compiler, args=(opencl_devices.context_of(info),)).start()


BACKEND: Backend = OpenCLBackend()
