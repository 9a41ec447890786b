"""CUDA C as a kernel language, and its persistent kernel: one group per multiprocessor."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.codegen.c_style.functions import function_of
from fourfold.codegen.c_style.grid_barrier import STATE_WORDS
from fourfold.codegen.c_style.joining import find_size_conflict, join_shared
from fourfold.codegen.c_style.ptx import WARP
from fourfold.codegen.c_style.renderer import render
from fourfold.codegen.c_style.sharing import SharedForm
from fourfold.codegen.c_style.stage_clock import GLOBAL_TIMER
from fourfold.codegen.capabilities import Capabilities
from fourfold.codegen.context import Target
from fourfold.codegen.cuda.dialect import CUDA
from fourfold.codegen.cuda.prelude import build_options, language_version, prelude_text
from fourfold.codegen.cuda.stage_calls import CalledStages
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.language import JoinedStages, Language, Persistent, Prelude
from fourfold.codegen.stage import GPU_ITEMS, Stage
from fourfold.codegen.walk import Node
from fourfold.device import DeviceInfo
from fourfold.plan.stage_clocks import StageClock


class PersistentKernel:
    """Runs all stages of a plan in one launch on CUDA devices."""

    def refuses(self, stages: Sequence[Stage], device: DeviceInfo) -> str | None:
        """Return why these stages cannot be one launch, or None."""
        if not device.resident:
            return "this device does not guarantee that groups can wait for each other"
        return find_size_conflict(stages, GPU_ITEMS, device)

    def shares(self, device: DeviceInfo) -> bool:
        return True

    def waits_cheaply(self, device: DeviceInfo) -> bool:
        return False

    def state_bytes(self, stages: int, device: DeviceInfo) -> int:
        return STATE_WORDS * 4

    def stage_clock(self, device: DeviceInfo) -> StageClock | None:
        return GLOBAL_TIMER

    def join(
        self,
        runs: Sequence[Sequence[Stage]],
        device: DeviceInfo,
        buffers: int,
        host_protocol: int | None,
        clock: StageClock | None = None,
    ) -> JoinedStages:
        clocked = clock is not None
        form = SharedForm(CUDA, CalledStages(clocked), buffers, host_protocol, clocked)
        return join_shared(runs, device.compute_units, form)


_CAPABILITIES = Capabilities(
    language="CUDA C",
    host_addresses=True,
    matrix_fragments=True,
    async_copies=True,
    warpgroups=True,
    declared_local_memory=CUDA.declared_local_memory,
    dot_products=frozenset(("", "ptx")),
    subgroups={"ptx": WARP},
)


class CudaLanguage:
    """CUDA C for NVRTC; its version is the compute capability that a program needs."""

    @property
    def capabilities(self) -> Capabilities:
        return _CAPABILITIES

    @property
    def persistent(self) -> Persistent | None:
        return PersistentKernel()

    def render(
        self,
        kernel: Kernel,
        entry: str,
        images: frozenset[str] = frozenset(),
        buffers: Sequence[int] = (),
    ) -> str:
        return render(kernel, entry, CUDA)

    def prelude(self, special: Sequence[Node], target: Target) -> Prelude:
        called = {function_of(node) for node in special}
        return Prelude(prelude_text(called), build_options(called), language_version(called))


LANGUAGE: Language = CudaLanguage()
