"""LiteRT's values of all tensors of a file."""

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
    """All values of a model after one run in LiteRT, as the graph sees them.

    All tensors are outputs of a file written for it, which runs in plain kernels if possible.
    LiteRT can preserve all tensors itself, but also preserves temporary buffers of its kernels,
    which are many times larger for convolutions.
    """

    def __init__(self, model: Model, inputs: Sequence[np.ndarray]) -> None:
        source = model.source_graph
        assert source is not None, "a model that runs in LiteRT has a source graph"
        self._source, self._types = source, model.main.types
        arguments = model.main.arguments
        seen = {source.tensor(name) for name, one in self._types.items() if one.dtype.has_numpy}
        written = (name for unit in source.titles for name in source.writes(unit))
        results = [name for name in dict.fromkeys(written) if source.tensor(name) in seen]
        bindings = [self._binding(name) for name in arguments]
        pairs = zip(bindings, inputs, strict=True)
        self._passed = {one.tensor: one.into_file(array) for one, array in pairs}
        self._made = {source.tensor(name) for name in results}
        self._part = _opened(source.write(tuple(source.titles), arguments, results), bindings)
        self._part.run(inputs)

    def _binding(self, value: str) -> TensorBinding:
        tensor = self._source.tensor(value)
        assert tensor is not None, f"'{value}' is not a tensor of the file"
        return TensorBinding(value, tensor, self._types[value], self._source.grid(value))

    def has(self, value: str) -> bool:
        tensor = self._source.tensor(value)
        return tensor in self._made or tensor in self._passed

    def value(self, value: str) -> np.ndarray:
        binding = self._binding(value)
        if binding.tensor in self._passed:
            return binding.into_graph(self._passed[binding.tensor])
        return self._part.value(binding)


def _opened(content: bytes, inputs: Sequence[TensorBinding]) -> LitertPart:
    """Open a file with plain kernels if possible: only XNNPACK has some custom operators."""
    try:
        return LitertPart(content, inputs, (), plain=True)
    except UnsupportedError:
        return LitertPart(content, inputs, ())
