"""ONNX Runtime's values of all tensors of a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fourfold.backends.cpu.onnxruntime.part import OnnxPart
from fourfold.plan.tensor_binding import TensorBinding

if TYPE_CHECKING:
    from fourfold.formats import Model


class OnnxValues:
    """All values of a model after one run in ONNX Runtime without optimizations, as the graph sees
    them.
    """

    def __init__(self, model: Model, inputs: Sequence[np.ndarray]) -> None:
        source = model.source_graph
        assert source is not None, "a model that runs in ONNX Runtime has a source graph"
        self._source, types = source, model.main.types
        names = model.main.arguments
        results = [
            name
            for unit in source.titles
            for name in source.writes(unit)
            if name in types and name not in model.main.constants
        ]
        content = source.write(list(source.titles), names, results)
        bindings = [
            TensorBinding(name, source.tensor(name) or name, types[name]) for name in results
        ]
        input_bindings = [
            TensorBinding(name, source.tensor(name) or name, types[name]) for name in names
        ]
        arrays = OnnxPart(content, input_bindings, bindings, plain=True).run(inputs)
        self._values: dict[str, np.ndarray] = dict(zip(results, arrays, strict=True))
        self._values |= dict(zip(names, inputs, strict=True))

    def has(self, value: str) -> bool:
        return self._source.tensor(value) in self._values

    def value(self, value: str) -> np.ndarray:
        return self._values[str(self._source.tensor(value))]
