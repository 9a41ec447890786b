"""Run plans with CUDA on NVIDIA GPUs."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, cast

from fourfold.backends.protocol import Backend, BuiltProgram
from fourfold.device import DeviceInfo, Fact
from fourfold.plan import Plan, Program
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold.backends.cuda import boards, driver, failures, nvrtc, traced
    from fourfold.backends.cuda import devices as cuda_devices
    from fourfold.backends.cuda import image as images
    from fourfold.backends.cuda import import_memory as imports
    from fourfold.backends.cuda import memory as memories
    from fourfold.backends.cuda import player as players
    from fourfold.backends.cuda import program as programs
    from fourfold.backends.cuda import shared_stream as streams
    from fourfold.backends.cuda import timer as timers
    from fourfold.support.trace import Trace
else:
    # Not needed for a session on another device.
    boards = lazy_import("fourfold.backends.cuda.boards")
    driver = lazy_import("fourfold.backends.cuda.driver")
    failures = lazy_import("fourfold.backends.cuda.failures")
    cuda_devices = lazy_import("fourfold.backends.cuda.devices")
    images = lazy_import("fourfold.backends.cuda.image")
    imports = lazy_import("fourfold.backends.cuda.import_memory")
    memories = lazy_import("fourfold.backends.cuda.memory")
    nvrtc = lazy_import("fourfold.backends.cuda.nvrtc")
    players = lazy_import("fourfold.backends.cuda.player")
    programs = lazy_import("fourfold.backends.cuda.program")
    streams = lazy_import("fourfold.backends.cuda.shared_stream")
    timers = lazy_import("fourfold.backends.cuda.timer")
    traced = lazy_import("fourfold.backends.cuda.traced")


class CudaBackend(Backend):
    """NVIDIA GPUs with compute capability 7.5 or newer."""

    name = "cuda"
    quick_builds = True

    @property
    def listed(self) -> bool:
        """Return True if NVIDIA's driver is installed; otherwise nothing is imported or loaded."""
        return driver.is_installed()

    def devices(self) -> tuple[DeviceInfo, ...]:
        return cuda_devices.devices()

    def find_board(self, name: str, units: int | None) -> DeviceInfo | None:
        return boards.find_board(name, units)

    def context_handle(self, device: DeviceInfo) -> int:
        """Return the primary context, which all libraries of a process share."""
        return cuda_devices.context_of(device).pointer.value or 0

    def shared_device(self, given: object) -> DeviceInfo | None:
        return streams.shared_device(given)

    def probe(self, device: DeviceInfo, names: Collection[str]) -> dict[str, Fact]:
        """Return the facts without a probe: the architecture and the attributes determine all."""
        return {name: device.claims[name] for name in names}

    def start_compiler(self, device: DeviceInfo) -> None:
        """Load the compiler, so that its errors are raised before a plan is compiled."""
        nvrtc.known_architecture(device.architectures)

    def live_program(self, device: DeviceInfo, program: Program) -> programs.BuiltModule | None:
        return programs.live_program(device, program)

    def load_program(
        self, device: DeviceInfo, program: Program, binary: bytes
    ) -> programs.BuiltModule | None:
        with failures.ActiveContext("loading the kernels", device, cuda_devices.context_of(device)):
            return programs.load_binary(device, binary)

    def binaries_are_cheap(self, device: DeviceInfo) -> bool:
        return True

    def is_quick_build(self, binary: bytes) -> bool:
        """Return True for code linked from parts, which has no PTX."""
        image = images.unpack(binary)
        return image is not None and not image.ptx

    def build_binary(self, device: DeviceInfo, program: Program) -> bytes:
        """Build for an attached GPU itself, or for an older one if no compiler supports it."""
        able = device.architectures
        architecture = nvrtc.known_architecture(able) if device.present else able[0]
        return nvrtc.build(program, architecture).pack()

    def make_player(
        self, device: DeviceInfo, plan: Plan, program: BuiltProgram | None = None
    ) -> players.Player:
        return players.Player(device, plan, cast("programs.BuiltModule | None", program))

    def make_clocked_player(self, device: DeviceInfo, plan: Plan) -> traced.ClockedPlayer:
        return traced.ClockedPlayer(device, plan)

    def make_traced_player(
        self, device: DeviceInfo, plan: Plan, trace: Trace
    ) -> traced.TracedPlayer:
        return traced.TracedPlayer(device, plan, trace)

    def make_memory(self, device: DeviceInfo, size: int) -> memories.CudaMemory:
        return memories.OwnMemory(device, size)

    def import_memory(self, device: DeviceInfo, given: Any) -> memories.CudaMemory | None:
        return imports.import_memory(device, given)

    def make_timer(self, device: DeviceInfo, plan: Plan) -> timers.LaunchTimer:
        return timers.LaunchTimer(device, plan)


BACKEND: Backend = CudaBackend()
