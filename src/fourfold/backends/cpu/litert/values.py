"""LiteRT's own values of all tensors of a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fourfold.backends.cpu.litert.part import LitertPart
from fourfold.errors import UnsupportedError
from fourfold.plan.tensor_binding import TensorBinding

if TYPE_CHECKING:
    from fourfold.formats import Model


class LitertValues:
    """A model that was run once with all of its tensors as outputs, in plain kernels where these
    take it; its values are as the graph sees them.

    LiteRT can keep all tensors by itself, but then it keeps what its kernels use meanwhile, too,
    which for convolutions is many times as much.
    """

    def __init__(self, model: Model, inputs: Sequence[np.ndarray]) -> None:
        source = model.source_graph
        assert source is not None, "a model that runs in LiteRT has a source graph"
        self._source, self._types = source, model.main.types
        arguments = model.main.arguments
        seen = {source.tensor(name) for name, one in self._types.items() if one.dtype.has_numpy}
        written = (name for unit in source.titles for name in source.writes(unit))
        made = [name for name in dict.fromkeys(written) if source.tensor(name) in seen]
        ends = [self._binding(name) for name in arguments]
        pairs = zip(ends, inputs, strict=True)
        self._passed = {one.tensor: one.into_file(array) for one, array in pairs}
        self._made = {source.tensor(name) for name in made}
        self._whole = _opened(source.write(tuple(source.titles), arguments, made), ends)
        self._whole.run(inputs)

    def _binding(self, value: str) -> TensorBinding:
        tensor = self._source.tensor(value)
        assert tensor is not None, f"'{value}' is no tensor of the file"
        return TensorBinding(value, tensor, self._types[value], self._source.grid(value))

    def has(self, value: str) -> bool:
        tensor = self._source.tensor(value)
        return tensor in self._made or tensor in self._passed

    def value(self, value: str) -> np.ndarray:
        binding = self._binding(value)
        if binding.tensor in self._passed:
            return binding.into_graph(self._passed[binding.tensor])
        return self._whole.value(binding)


def _opened(content: bytes, inputs: Sequence[TensorBinding]) -> LitertPart:
    """Some custom operators are known to XNNPACK alone."""
    try:
        return LitertPart(content, inputs, (), plain=True)
    except UnsupportedError:
        return LitertPart(content, inputs, ())
