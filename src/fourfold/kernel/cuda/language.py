"""CUDA C as a kernel language."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.kernel.c_style.functions import function_of
from fourfold.kernel.c_style.ptx import WARP
from fourfold.kernel.c_style.renderer import render
from fourfold.kernel.capabilities import Capabilities
from fourfold.kernel.context import Target
from fourfold.kernel.cuda.dialect import CUDA
from fourfold.kernel.cuda.joining import PersistentKernel
from fourfold.kernel.cuda.prelude import build_options, language_version, prelude_text
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.language import Language, Persistent, Prelude
from fourfold.kernel.walk import Node

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
