"""A language with few features, like those of browsers; nothing compiles its text."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.codegen.capabilities import STORAGES, Capabilities
from fourfold.codegen.context import Target
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.language import Language, Persistent, Prelude
from fourfold.codegen.statement import Prefetch
from fourfold.codegen.walk import Node
from fourfold.types import DType

NARROW = Capabilities(
    language="Narrow",
    kinds=frozenset(("float", "int", "uint", "bool")),
    widths=frozenset((1, 4)),
    storages=STORAGES - {DType.I64},
    shifted_pointers=False,
    private_arrays=False,
)


class NarrowLanguage:
    """Records the kernels that it renders."""

    def __init__(self, capabilities: Capabilities = NARROW) -> None:
        self._capabilities = capabilities
        self.kernels: list[Kernel] = []

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

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
        assert not images
        self.kernels.append(kernel)
        return f"{entry} {len(self.kernels)}\n"

    def prelude(self, special: Sequence[Node], target: Target) -> Prelude:
        # Hints may be left out by languages without them.
        assert all(isinstance(node, Prefetch) for node in special), special
        return Prelude("", "", "1")


LANGUAGE: Language = NarrowLanguage()
