"""TensorInfo: name, shape, type and metadata of an input or output."""

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
    """Return no metadata, as for most models."""


@dataclass(frozen=True)
class TensorInfo:
    """An input or output of a model.

    Attributes:
        name: Name in the model.
        shape: Current shape; -1 for a size that is still open.
        dtype: NumPy type of its arrays; `object` for text.
        quantization: Scale and zero point of quantized values.
        signature: Sizes that the model declares, with -1 for open ones; () if none is open.
        pixels: Text form of the pixels option, for an input that takes the bytes of a picture.
        limits: Smallest and largest valid number, for an input of indices or of 64-bit integers.
        read_metadata: Function that reads the model's metadata of it.
    """

    name: str
    shape: Shape
    dtype: np.dtype
    quantization: Quantization | None = None
    signature: Shape = ()
    pixels: str = ""
    limits: tuple[int, int] | None = None
    read_metadata: ReadMetadata = field(default=_nothing, compare=False, repr=False)

    @property
    def metadata(self) -> TensorMetadata | None:
        """Metadata of the tensor; None if the model has none."""
        return self.read_metadata()

    @property
    def description(self) -> str:
        metadata = self.metadata
        return "" if metadata is None else metadata.description

    @property
    def labels(self) -> tuple[str, ...]:
        """Class names: of the indices along the last axis, or of the values."""
        data = self.metadata
        return () if data is None else data.label_texts() or data.label_texts(kind="value")

    def is_taken(self, given: object) -> bool:
        """Return whether a backend takes this array as it is. Text never is."""
        return (
            type(given) is np.ndarray
            and given.dtype == self.dtype
            and given.shape == self.shape
            and given.flags.c_contiguous
            and given.dtype.kind != "O"
            and (self.limits is None or self.number_outside(given) is None)
        )

    def number_outside(self, array: np.ndarray) -> int | None:
        """Return a number of the array that exceeds the limits; None if there is none."""
        if self.limits is None or not array.size:
            return None
        smallest, largest = int(array.min()), int(array.max())
        if smallest < self.limits[0]:
            return smallest
        return largest if largest > self.limits[1] else None

    def admits(self, shape: Shape) -> bool:
        """Return whether the model declares open sizes that allow this shape."""
        if not self.signature or len(shape) != len(self.signature):
            return False
        return all(own in (-1, size) for own, size in zip(self.signature, shape, strict=True))

    def takes(self, shape: Shape) -> bool:
        """Return whether an array of this shape can be passed."""
        return shape == self.shape or self.admits(shape)

    def dequantize(self, array: np.ndarray) -> np.ndarray:
        """Return the real values of a quantized array; other arrays are returned unchanged."""
        if self.quantization is None or array.dtype.kind not in "iu":
            return array
        return dequantize(array, self.quantization)

    def quantize(self, array: np.ndarray) -> np.ndarray:
        """Return real values as a quantized array, rounded to the nearest; arrays for other tensors
        are returned unchanged.
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
        text = f"<TensorInfo {self.name}: {', '.join(text for _, text in self._facts())}>"
        return str(display.visible(text))

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
    """Return the inputs or outputs of a model, with the names that callers use."""
    known, pixels = dict(zip(names, signatures, strict=False)), pixels or {}
    return tuple(
        TensorInfo(
            name=name,
            shape=port.type.shape,
            dtype=port.type.dtype.array_dtype,
            quantization=port.quantization,
            signature=known.get(name, ()),
            pixels=pixels.get(name, ""),
            limits=port.limits,
            read_metadata=_nothing if read is None else partial(read, place),
        )
        for place, (port, name) in enumerate(zip(ports, names, strict=True))
    )
