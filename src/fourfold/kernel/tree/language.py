"""Kernel trees as a language with the features of all devices, for the interpreter."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.kernel.capabilities import Capabilities
from fourfold.kernel.context import Target
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.language import Language, Persistent, Prelude
from fourfold.kernel.tree.persistent import StageList
from fourfold.kernel.tree.render import render
from fourfold.kernel.walk import Node

VERSION = "1.0"
WARP = 32
_CAPABILITIES = Capabilities(
    language="kernel trees",
    images=True,
    host_addresses=True,
    matrix_fragments=True,
    async_copies=True,
    warpgroups=True,
    extents=True,
    dot_products=frozenset(("", "x86", "khr", "ptx")),
    subgroups={"khr": None, "ptx": WARP},
)


class TreeLanguage:
    """Writes kernel trees as they are."""

    @property
    def capabilities(self) -> Capabilities:
        return _CAPABILITIES

    @property
    def persistent(self) -> Persistent | None:
        return StageList()

    def render(
        self,
        kernel: Kernel,
        entry: str,
        images: frozenset[str] = frozenset(),
        buffers: Sequence[int] = (),
    ) -> str:
        return render(kernel, entry, images)

    def prelude(self, special: Sequence[Node], target: Target) -> Prelude:
        """Return an empty prelude: trees need none."""
        return Prelude("", "", VERSION)


LANGUAGE: Language = TreeLanguage()
