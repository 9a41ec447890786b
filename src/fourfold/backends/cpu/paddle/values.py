"""Paddle's values of all variables of a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fourfold.backends.cpu.paddle.part import PaddlePart
from fourfold.plan.tensor_binding import TensorBinding

if TYPE_CHECKING:
    from fourfold.formats import Model


class PaddleValues:
    """All values of a model after one run in Paddle."""

    def __init__(self, model: Model, inputs: Sequence[np.ndarray]) -> None:
        source, graph = model.source_graph, model.main
        assert source is not None, "a model that runs in parts has a source graph"
        results = [
            name
            for unit in source.titles
            for name in source.writes(unit)
            if name in graph.types and name not in graph.constants
        ]
        names = graph.arguments
        content = source.write(list(source.titles), names, results)
        inner, outer = (
            [TensorBinding(one, one, graph.types[one]) for one in ports]
            for ports in (names, results)
        )
        arrays = PaddlePart(content, inner, outer).run(inputs)
        self._source = source
        self._values: dict[str, np.ndarray] = {
            **dict(zip(results, arrays, strict=True)),
            **dict(zip(names, inputs, strict=True)),
        }

    def _tensor(self, value: str) -> str:
        return str(self._source.tensor(value))

    def has(self, value: str) -> bool:
        return self._tensor(value) in self._values

    def value(self, value: str) -> np.ndarray:
        return self._values[self._tensor(value)]
