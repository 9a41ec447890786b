"""A program's code as it is kept: what an architecture runs as it is, and PTX for newer ones."""

from __future__ import annotations

from typing import NamedTuple

from fourfold.errors import ModelError
from fourfold.plan import Container, Section, container_bytes
from fourfold.players.cuda.architectures import runs

_SECTIONS = ("architecture", "compiler", "cubin", "ptx")


class Image(NamedTuple):
    """Code for one architecture, who built it, and the same as PTX, which drivers of newer GPUs
    translate when they load it; what was linked of parts has none.
    """

    architecture: str
    compiler: str
    cubin: bytes
    ptx: bytes

    def pack(self) -> bytes:
        """All of it as one binary."""
        texts = (self.architecture.encode(), self.compiler.encode())
        parts = zip(_SECTIONS, (*texts, self.cubin, self.ptx), strict=True)
        return container_bytes([Section(name, data) for name, data in parts])

    def codes_for(self, architecture: str) -> tuple[bytes, ...]:
        """What a GPU may load, the best first: code that it runs as it is, PTX that its driver
        translates.
        """
        if architecture == self.architecture or not self.ptx:
            return (self.cubin,)
        return (self.cubin, self.ptx) if runs(architecture, self.architecture) else (self.ptx,)


def unpack(binary: bytes) -> Image | None:
    """The image in a binary; None where it is damaged or none at all."""
    try:
        file = Container(binary, "a binary")
        found = [bytes(file.section(number, name)) for number, name in enumerate(_SECTIONS)]
        return Image(found[0].decode(), found[1].decode(), found[2], found[3])
    except (ModelError, UnicodeDecodeError):
        return None
