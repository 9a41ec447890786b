"""The values of a graph as tensors of the file, and the conversions between ways to keep them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fourfold.formats.refusal import Unconvertible
from fourfold.formats.tflite.write_graph.draft import Draft, Tensor
from fourfold.formats.writable import StoredAs
from fourfold.graph import Graph
from fourfold.types import DType, Quantization, to_integers

GRID_TYPES = frozenset({DType.I8, DType.U8, DType.I16, DType.I32})
_NIBBLES = (-8, 7)


@dataclass
class Values:
    """Where each value is. `stored` says how real numbers are kept, and `grids` what the integers
    of values that the graph itself has as integers stand for. A value has a tensor of its own,
    and others where someone needs it in another way.
    """

    draft: Draft
    graph: Graph
    stored: Mapping[str, StoredAs]
    grids: Mapping[str, Quantization]
    titles: Mapping[str, str]  # names that the caller has given to some values
    own: dict[str, Tensor] = field(default_factory=dict)
    others: dict[tuple[str, StoredAs | None], Tensor] = field(default_factory=dict)

    def form(self, value: str) -> StoredAs | None:
        """How the value is kept; None for what the graph says."""
        form = self.stored.get(value)
        real = self.graph.types[value].dtype is DType.F32
        return form if form is not None and real and form.dtype is not DType.F32 else None

    def title(self, value: str) -> str:
        """The name of a value's tensor: the caller's, or its own if no other has got that."""
        taken = value in self.titles.values() and value not in self.titles
        return f"{value}/inner" if taken else self.titles.get(value, value)

    def declare(self, value: str, signature: tuple[int, ...] = ()) -> Tensor:
        """The tensor of an input of the graph."""
        form, type = self.form(value), self.graph.types[value]
        if form is not None and form.quantization is None:
            raise Unconvertible(f"'{value}' would be halves, which TFLite keeps for constants")
        quantization = self.grids.get(value) if form is None else form.quantization
        kept = type if form is None else type.with_dtype(form.dtype)
        tensor = self.draft.tensor(self.title(value), kept, quantization, signature)
        self.own[value] = tensor
        return tensor

    def result(self, value: str, form: StoredAs | None, own: bool) -> Tensor:
        """A tensor for an operator to write the value to: its own, or one to be converted."""
        type, name = self.graph.types[value], self.title(value)
        name = name if own else f"{value}/{'integers' if form else 'real'}"
        quantization = self.grids.get(value) if form is None else form.quantization
        return self.draft.tensor(
            name, type if form is None else type.with_dtype(form.dtype), quantization
        )

    def settle(self, value: str, tensor: Tensor) -> None:
        """The value is there: as it is to be kept, or converted to that."""
        wanted = self.form(value)
        if wanted == tensor.stored or self.graph.types[value].dtype is not DType.F32:
            self.own[value] = tensor
            return
        if wanted is None:
            # The same numbers in two ways; elsewhere one of them is rounded.
            self.others[value, tensor.stored] = tensor
            self.own[value] = self._dequantize(tensor, self.title(value))
        else:
            self.own[value] = self._convert(value, tensor, wanted, own=True)

    def plain(self, value: str) -> Tensor:
        """The value as the graph has it: floats, or whatever is no real number."""
        if value in self.graph.constants:
            return self._constant(value, None)
        tensor = self.own[value]
        if tensor.stored is None or self.graph.types[value].dtype is not DType.F32:
            return tensor
        if (value, None) not in self.others:
            self.others[value, None] = self._dequantize(tensor, f"{value}/real")
        return self.others[value, None]

    def kept(self, value: str, form: StoredAs) -> Tensor:
        """The value as integers of a certain grid."""
        if value in self.graph.constants:
            return self._constant(value, form)
        if self.own[value].stored == form:
            return self.own[value]
        if (value, form) not in self.others:
            self.others[value, form] = self._convert(value, self.own[value], form, own=False)
        return self.others[value, form]

    def _convert(self, value: str, tensor: Tensor, form: StoredAs, own: bool) -> Tensor:
        """QUANTIZE, from real numbers or from another grid."""
        if form.quantization is None:
            raise Unconvertible(f"'{value}' would be halves, which TFLite keeps for constants")
        if form.quantization.axis is not None:
            raise Unconvertible(f"'{value}' would have a scale for each channel, but is computed")
        made = self.result(value, form, own)
        self.draft.operator("QUANTIZE", [tensor], [made])
        return made

    def _dequantize(self, tensor: Tensor, name: str) -> Tensor:
        made = self.draft.tensor(name, tensor.type.with_dtype(DType.F32))
        self.draft.operator("DEQUANTIZE", [tensor], [made])
        return made

    def _constant(self, value: str, form: StoredAs | None) -> Tensor:
        if (value, form) not in self.others:
            self.others[value, form] = self._make_constant(value, form)
        return self.others[value, form]

    def _make_constant(self, value: str, form: StoredAs | None) -> Tensor:
        array, kept = self.graph.constants[value], self.form(value)
        if form is not None:
            return self._integers(value, array, form)
        if kept is None:
            return self.draft.constant(self.title(value), array)
        if kept.quantization is not None:
            return self._dequantize(self.kept(value, kept), f"{value}/real")
        if kept.dtype is not DType.F16:
            raise Unconvertible(f"'{value}' cannot be kept as {kept.dtype.value}")
        halves = self.draft.constant(self.title(value), array.astype(np.float16))
        return self._dequantize(halves, f"{value}/real")

    def _integers(self, value: str, array: np.ndarray, form: StoredAs) -> Tensor:
        if form.quantization is None or form.dtype not in (*GRID_TYPES, DType.I4, DType.I64):
            raise Unconvertible(f"'{value}' cannot be kept as {form.dtype.value}")
        wide = DType.I8 if form.dtype is DType.I4 else form.dtype
        integers = to_integers(array, form.quantization, wide)
        if form.dtype is DType.I4:
            integers = integers.clip(*_NIBBLES)
        name = self.title(value)
        return self.draft.stored_constant(name, integers, form.dtype, form.quantization)
