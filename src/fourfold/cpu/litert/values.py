"""LiteRT's own values of all tensors of a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fourfold.cpu.litert.part import LitertPart
from fourfold.plan.tensor_binding import TensorBinding

if TYPE_CHECKING:
    from fourfold.formats import Model


class LitertValues:
    """A model that was run once, in plain kernels; its values are as the graph sees them."""

    def __init__(self, model: Model, inputs: Sequence[np.ndarray]) -> None:
        source = model.source_graph
        assert source is not None, "a model that runs in LiteRT has a source graph"
        self._source, self._types = source, model.main.types
        bindings = [self._binding(name) for name in model.main.arguments]
        self._whole = LitertPart(source.content, bindings, (), keep_all=True)
        self._whole.run(inputs)

    def _binding(self, value: str) -> TensorBinding:
        tensor = self._source.tensor(value)
        assert tensor is not None, f"'{value}' is no tensor of the file"
        return TensorBinding(value, tensor, self._types[value], self._source.grid(value))

    def has(self, value: str) -> bool:
        return self._source.tensor(value) is not None

    def value(self, value: str) -> np.ndarray:
        return self._whole.value(self._binding(value))
