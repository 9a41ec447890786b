"""The NumPy engine, which runs the operators' definitions: slow, always available, for any
format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fourfold.backends.cpu.numpy.graph_file import read_graph
from fourfold.backends.cpu.protocol import RunModel
from fourfold.backends.cpu.reference import Arrays, NumpyPart, evaluate
from fourfold.formats import Model, ReadOptions, read_model
from fourfold.plan.targets import NUMPY

if TYPE_CHECKING:
    from fourfold.formats.units import Unit
    from fourfold.plan import Part


class Numpy:
    """NumPy as a CPU engine: parts are graphs."""

    name, title = NUMPY, "NumPy"
    install = "pip install numpy"

    def installed(self) -> bool:
        return True

    def version(self) -> str:
        return f"numpy {np.__version__}"

    def refusal(self, model: Model, unit: Unit) -> str:
        if unit.foreign is not None:
            return "it has no definition in NumPy"
        types = model.main.types
        values = (value for value in (*unit.reads, *unit.writes) if value in types)
        unsupported = next((value for value in values if not types[value].dtype.has_numpy), None)
        return "" if unsupported is None else f"NumPy has no arrays of the type of '{unsupported}'"

    def open_part(self, part: Part, threads: int) -> NumpyPart:
        return NumpyPart(read_graph(part.content) if part.graph is None else part.graph)

    def open_model(
        self, model: str | bytes, inputs: Mapping[str, np.ndarray], threads: int | None
    ) -> RunModel:
        shapes = {name: array.shape for name, array in inputs.items()}
        graph = read_model(model, ReadOptions(shapes, follow_batch=False)).main
        arrays = list(inputs.values())
        return lambda: NumpyPart(graph).run(arrays)

    def compute_values(self, model: Model, inputs: Sequence[np.ndarray]) -> NumpyValues:
        return NumpyValues(model, inputs)


class NumpyValues:
    """All values of a graph that was evaluated once."""

    def __init__(self, model: Model, inputs: Sequence[np.ndarray]) -> None:
        graph = model.main
        arguments = dict(zip(graph.arguments, inputs, strict=True))
        results = (name for node in graph.nodes for name in node.outputs)
        with_all_values = replace(graph, outputs=tuple(dict.fromkeys((*graph.outputs, *results))))
        self._values: Arrays = {
            **graph.constants,
            **arguments,
            **evaluate(with_all_values, arguments),
        }

    def has(self, value: str) -> bool:
        return value in self._values

    def value(self, value: str) -> np.ndarray:
        return self._values[value]


ENGINE = Numpy()
