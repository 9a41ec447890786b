"""WGSL as a kernel language."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.codegen.capabilities import Capabilities
from fourfold.codegen.context import Target
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.language import Language, Persistent, Prelude
from fourfold.codegen.walk import Node
from fourfold.codegen.wgsl.renderer import MAX_GROUPS, render

_CAPABILITIES = Capabilities(
    language="WGSL",
    kinds=frozenset(("float", "half", "int", "bool")),
    widths=frozenset((1, 4)),
    shifted_pointers=False,
    private_arrays=False,
    separate_writes=True,
    max_groups=MAX_GROUPS,
    few_kernels=True,
    counted_rounds=True,
)


class WgslLanguage:
    """WGSL as all browsers accept it: the modules of all entry points, one after the other."""

    @property
    def capabilities(self) -> Capabilities:
        return _CAPABILITIES

    @property
    def persistent(self) -> Persistent | None:
        return None

    def render(
        self,
        kernel: Kernel,
        entry: str,
        images: frozenset[str] = frozenset(),
        buffers: Sequence[int] = (),
    ) -> str:
        return render(kernel, entry, buffers)

    def prelude(self, special: Sequence[Node], target: Target) -> Prelude:
        return Prelude("", "", "1.0")


LANGUAGE: Language = WgslLanguage()
