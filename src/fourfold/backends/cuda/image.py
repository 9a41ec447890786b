"""Compiled code as it is stored: machine code of one architecture, and PTX for newer ones."""

from __future__ import annotations

from typing import NamedTuple

from fourfold.backends.cuda.architectures import runs
from fourfold.errors import ModelError
from fourfold.plan import Container, Section, container_bytes

_SECTIONS = ("architecture", "compiler", "cubin", "ptx")


class Image(NamedTuple):
    """Machine code for one architecture, the compiler that built it, and the same program as PTX,
    which drivers of newer GPUs translate. Code that was linked from parts has no PTX.
    """

    architecture: str
    compiler: str
    cubin: bytes
    ptx: bytes

    def pack(self) -> bytes:
        """Serialize the image."""
        texts = (self.architecture.encode(), self.compiler.encode())
        parts = zip(_SECTIONS, (*texts, self.cubin, self.ptx), strict=True)
        return container_bytes([Section(name, data) for name, data in parts])

    def codes_for(self, architecture: str) -> tuple[bytes, ...]:
        """Return what a GPU may load, best first: machine code it runs directly, PTX for its
        driver.
        """
        if architecture == self.architecture or not self.ptx:
            return (self.cubin,)
        return (self.cubin, self.ptx) if runs(architecture, self.architecture) else (self.ptx,)


def unpack(binary: bytes) -> Image | None:
    """Deserialize an image; None if the binary is damaged or not an image."""
    try:
        file = Container(binary, "a binary")
        sections = [bytes(file.section(number, name)) for number, name in enumerate(_SECTIONS)]
        return Image(sections[0].decode(), sections[1].decode(), sections[2], sections[3])
    except (ModelError, UnicodeDecodeError):
        return None
