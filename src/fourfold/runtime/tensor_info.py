"""TensorInfo: what a caller needs to know of an input or output."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fourfold.plan import Port
from fourfold.support.lazy import lazy_import
from fourfold.types import OPEN, DType, Quantization, Shape, dequantize, to_integers

if TYPE_CHECKING:
    from fourfold.graph.metadata import TensorMetadata
    from fourfold.support import display

    ReadMetadata = Callable[[], TensorMetadata | None]
else:
    display = lazy_import("fourfold.support.display")


def _nothing() -> None:
    """Most models say nothing of their tensors."""


@dataclass(frozen=True)
class TensorInfo:
    """What a caller needs to know of an input or output.

    `signature` has the sizes of an input with -1 where the model leaves one open; it is empty
    where the model leaves none open. `pixels` says in words what the bytes of a picture hold, and
    is empty for all else. An array of text has the type `object`. What the model's metadata say
    is read when it is asked for.
    """

    name: str
    shape: Shape
    dtype: np.dtype
    quantization: Quantization | None = None
    signature: Shape = ()
    pixels: str = ""
    read_metadata: ReadMetadata = field(default=_nothing, compare=False, repr=False)

    @property
    def metadata(self) -> TensorMetadata | None:
        """What the model says of it; None where it says nothing."""
        return self.read_metadata()

    @property
    def description(self) -> str:
        found = self.metadata
        return "" if found is None else found.description

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of its classes: of the places along its last axis, or of its numbers."""
        found = self.metadata
        return () if found is None else found.label_texts() or found.label_texts(kind="value")

    def is_taken(self, given: object) -> bool:
        """Whether players take this for it as it is: what most callers pass. Text is never."""
        return (
            type(given) is np.ndarray
            and given.dtype == self.dtype
            and given.shape == self.shape
            and given.flags.c_contiguous
            and given.dtype.kind != "O"
        )

    def admits(self, shape: Shape) -> bool:
        """Whether the model itself says that the input may have this shape."""
        if not self.signature or len(shape) != len(self.signature):
            return False
        return all(own in (-1, size) for own, size in zip(self.signature, shape, strict=True))

    def takes(self, shape: Shape) -> bool:
        """Whether an array of this shape can be passed: the model has it, or changes to it."""
        return shape == self.shape or self.admits(shape)

    def dequantize(self, array: np.ndarray) -> np.ndarray:
        """The real numbers that an array of it stands for, as floats; others are as they are."""
        if self.quantization is None or array.dtype.kind not in "iu":
            return array
        return dequantize(array, self.quantization)

    def quantize(self, array: np.ndarray) -> np.ndarray:
        """An array of it for real numbers, the nearest where a number is none of its own; others
        are as they are.
        """
        if self.quantization is None or self.dtype.kind not in "iu":
            return array
        return to_integers(array, self.quantization, DType.of(np.empty(0, self.dtype)))

    @property
    def is_text(self) -> bool:
        return self.dtype.kind == "O"

    @property
    def type_text(self) -> str:
        """'float32[1, 224, 224, 3]', with a question mark where the model leaves a size open."""
        open_sizes = self.signature or self.shape
        pairs = zip(self.shape, open_sizes, strict=False)
        sizes = ", ".join(_size_text(size, own) for size, own in pairs)
        return f"{'text' if self.is_text else self.dtype}[{sizes}]"

    def __repr__(self) -> str:
        return f"<TensorInfo {self.name}: {', '.join(text for _, text in self._facts())}>"

    def _repr_html_(self) -> str:
        return str(display.html_table(self.name, (), self._facts()))

    def _facts(self) -> Iterator[tuple[str, str]]:
        yield "type", self.type_text
        if self.quantization is not None:
            yield "quantized", f"quantized {self.quantization}"
        if self.pixels:
            yield "pixels", f"pixels {self.pixels}"


def _size_text(size: int, declared: int) -> str:
    if size == OPEN:
        return "?"
    return f"{size}?" if declared == OPEN else str(size)


def describe_ports(
    ports: Sequence[Port],
    names: Sequence[str],
    signatures: Sequence[Shape] = (),
    pixels: Mapping[str, str] | None = None,
    read: Callable[[int], TensorMetadata | None] | None = None,
) -> tuple[TensorInfo, ...]:
    """What a caller needs to know of a plan's inputs or outputs, by the model's own names."""
    known, pixels = dict(zip(names, signatures, strict=False)), pixels or {}
    return tuple(
        TensorInfo(
            name=name,
            shape=port.type.shape,
            dtype=port.type.dtype.array_dtype,
            quantization=port.quantization,
            signature=known.get(name, ()),
            pixels=pixels.get(name, ""),
            read_metadata=_nothing if read is None else partial(read, place),
        )
        for place, (port, name) in enumerate(zip(ports, names, strict=True))
    )
