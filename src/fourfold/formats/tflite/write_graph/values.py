"""Values: the values of a graph as tensors of the file, with conversions between storage forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fourfold.formats.rule_table import Unconvertible
from fourfold.formats.tflite.write_graph.draft import Draft, Tensor
from fourfold.formats.writable import StoredAs
from fourfold.graph import Graph
from fourfold.types import DType, Quantization, to_integers

GRID_TYPES = frozenset({DType.I8, DType.U8, DType.I16, DType.I32})
_INT4_RANGE = (-8, 7)


@dataclass
class Values:
    """The tensors of each value.

    `stored` says how float values are stored, `grids` is the quantization of values that are
    integers in the graph itself. A value has its own tensor, and others if it is needed in another
    form.
    """

    draft: Draft
    graph: Graph
    stored: Mapping[str, StoredAs]
    grids: Mapping[str, Quantization]
    titles: Mapping[str, str]  # names that the caller gave to some values
    own: dict[str, Tensor] = field(default_factory=dict)
    others: dict[tuple[str, StoredAs | None], Tensor] = field(default_factory=dict)

    def form(self, value: str) -> StoredAs | None:
        """Return the storage form of the value; None for the type in the graph."""
        form = self.stored.get(value)
        real = self.graph.types[value].dtype is DType.F32
        return form if form is not None and real and form.dtype is not DType.F32 else None

    def title(self, value: str) -> str:
        """Return the name of a value's tensor: the caller's, or its own if that is free."""
        taken = value in self.titles.values() and value not in self.titles
        return f"{value}/inner" if taken else self.titles.get(value, value)

    def declare(self, value: str, signature: tuple[int, ...] = ()) -> Tensor:
        """Add the tensor of an input of the graph."""
        form, type = self.form(value), self.graph.types[value]
        if form is not None and form.quantization is None:
            raise Unconvertible(
                f"'{value}' would be float16, which TFLite only supports for constants"
            )
        quantization = self.grids.get(value) if form is None else form.quantization
        stored_type = type if form is None else type.with_dtype(form.dtype)
        tensor = self.draft.tensor(self.title(value), stored_type, quantization, signature)
        self.own[value] = tensor
        return tensor

    def result(self, value: str, form: StoredAs | None, own: bool) -> Tensor:
        """Add a tensor for an operator to write the value to: its own, or one to be converted."""
        type, name = self.graph.types[value], self.title(value)
        name = name if own else f"{value}/{'integers' if form else 'real'}"
        quantization = self.grids.get(value) if form is None else form.quantization
        return self.draft.tensor(
            name, type if form is None else type.with_dtype(form.dtype), quantization
        )

    def settle(self, value: str, tensor: Tensor) -> None:
        """Define the value as a tensor, converted to its storage form if needed."""
        target = self.form(value)
        if target == tensor.stored or self.graph.types[value].dtype is not DType.F32:
            self.own[value] = tensor
            return
        if target is None:
            # Keep both forms of the same numbers; the other conversion would round.
            self.others[value, tensor.stored] = tensor
            self.own[value] = self._dequantize(tensor, self.title(value))
        else:
            self.own[value] = self._convert(value, tensor, target, own=True)

    def plain(self, value: str) -> Tensor:
        """Return the value in the graph's type."""
        if value in self.graph.constants:
            return self._constant(value, None)
        tensor = self.own[value]
        if tensor.stored is None or self.graph.types[value].dtype is not DType.F32:
            return tensor
        if (value, None) not in self.others:
            self.others[value, None] = self._dequantize(tensor, f"{value}/real")
        return self.others[value, None]

    def stored_as(self, value: str, form: StoredAs) -> Tensor:
        """Return the value quantized in a given form."""
        if value in self.graph.constants:
            return self._constant(value, form)
        if self.own[value].stored == form:
            return self.own[value]
        if (value, form) not in self.others:
            self.others[value, form] = self._convert(value, self.own[value], form, own=False)
        return self.others[value, form]

    def _convert(self, value: str, tensor: Tensor, form: StoredAs, own: bool) -> Tensor:
        """Add a QUANTIZE, from floats or from another quantization."""
        if form.quantization is None:
            raise Unconvertible(
                f"'{value}' would be float16, which TFLite only supports for constants"
            )
        if form.quantization.axis is not None:
            raise Unconvertible(f"'{value}' would have a scale per channel, but is not a constant")
        quantized = self.result(value, form, own)
        self.draft.operator("QUANTIZE", [tensor], [quantized])
        return quantized

    def _dequantize(self, tensor: Tensor, name: str) -> Tensor:
        real = self.draft.tensor(name, tensor.type.with_dtype(DType.F32))
        self.draft.operator("DEQUANTIZE", [tensor], [real])
        return real

    def _constant(self, value: str, form: StoredAs | None) -> Tensor:
        if (value, form) not in self.others:
            self.others[value, form] = self._make_constant(value, form)
        return self.others[value, form]

    def _make_constant(self, value: str, form: StoredAs | None) -> Tensor:
        array, own_form = self.graph.constants[value], self.form(value)
        if form is not None:
            return self._integers(value, array, form)
        if own_form is None:
            return self.draft.constant(self.title(value), array)
        if own_form.quantization is not None:
            return self._dequantize(self.stored_as(value, own_form), f"{value}/real")
        if own_form.dtype is not DType.F16:
            raise Unconvertible(f"'{value}' cannot be stored as {own_form.dtype.value}")
        narrow = self.draft.constant(self.title(value), array.astype(np.float16))
        return self._dequantize(narrow, f"{value}/real")

    def _integers(self, value: str, array: np.ndarray, form: StoredAs) -> Tensor:
        if form.quantization is None or form.dtype not in (*GRID_TYPES, DType.I4, DType.I64):
            raise Unconvertible(f"'{value}' cannot be stored as {form.dtype.value}")
        wide = DType.I8 if form.dtype is DType.I4 else form.dtype
        integers = to_integers(array, form.quantization, wide)
        if form.dtype is DType.I4:
            integers = integers.clip(*_INT4_RANGE)
        name = self.title(value)
        return self.draft.stored_constant(name, integers, form.dtype, form.quantization)
