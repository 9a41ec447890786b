"""The values of a model by the tensors of its file: an engine's, and those of our own kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fourfold import players
from fourfold.compile.pipeline import LoweringInput
from fourfold.cpu.protocol import ModelValues
from fourfold.formats import Model
from fourfold.graph import Graph, Node
from fourfold.plan.tensor_binding import TensorId
from fourfold.types import DType, Quantization, dequantize, to_integers

Grid = tuple[Quantization, DType]
COUNTED = "/steps"  # the ending of values that count the steps of the value before it
FOREIGN = "foreign"  # the op of nodes that only the file's own engine can run


class FileTensors:
    """Which values of a model's graph are which tensor of its file, in the order they are made."""

    def __init__(self, model: Model) -> None:
        self._graph, self._source = model.main, model.source_graph
        self.made: dict[TensorId, list[str]] = {}
        passed = {self.of(name) for name in self._graph.inputs}
        for node in self._graph.nodes:
            for name in node.outputs if node.op != FOREIGN else ():
                tensor = self.of(name)
                if tensor is not None and tensor not in passed and self._has_numbers(name):
                    self.made.setdefault(tensor, []).append(name)

    def of(self, value: str) -> TensorId | None:
        return value if self._source is None else self._source.tensor(value)

    def grid(self, value: str) -> Grid | None:
        known = self._source is not None and self._source.tensor(value) is not None
        return self._source.grid(value) if known and self._source is not None else None

    def node(self, value: str) -> Node:
        return self._graph.producers[value]

    def title(self, value: str) -> str:
        """The operator that makes a value, as people know it."""
        node = self.node(value)
        return node.op if self._source is None else self._source.titles.get(node.name, node.op)

    def rounds(self, value: str) -> bool:
        """Whether the file's engine rounds what the value's operator reads."""
        name, source = self.node(value).name, self._source
        return source is not None and name in source.titles and source.rounds(name)

    def zero_shift(self, value: str) -> float:
        """By how many steps a value is off where its engine rounds the place that its input's zero
        point has among its own steps, as LiteRT's means do; 0 for what has several inputs.
        """
        name, source = self.node(value).name, self._source
        reads = source.reads(name) if source is not None and name in source.titles else ()
        before = self.grid(reads[0]) if len(reads) == 1 else None
        after = self.grid(value)
        if before is None or after is None:
            return 0.0
        place = before[0].zero_point[0] * before[0].scale[0] / after[0].scale[0]
        return place - round(place)

    def _has_numbers(self, value: str) -> bool:
        return self._graph.types[value].dtype.has_numpy

    def has_shape(self, value: str, array: np.ndarray) -> bool:
        """Whether an array is this value: a rewrite may use its name for one of another layout."""
        known = self._graph.types.get(value)
        return known is not None and array.shape == known.shape and array.dtype != object

    def converted(self, array: np.ndarray, value: str) -> np.ndarray:
        """A tensor in the form that the graph has a value in: real numbers or integers."""
        real, grid = self._graph.types[value].dtype is DType.F32, self.grid(value)
        if grid is None or real == (array.dtype.kind == "f"):
            return array
        return dequantize(array, grid[0]) if real else to_integers(array, *grid)

    def steps(self, array: np.ndarray, value: str, step: float) -> np.ndarray:
        """A value in steps from its zero point."""
        if array.dtype.kind == "f":
            return np.asarray(array.astype(np.float64) / step)
        grid = self.grid(value)
        point = grid[0].zero_point[0] if grid is not None else self._zero_point(value)
        return array.astype(np.float64) - point

    def _zero_point(self, value: str) -> int:
        return int(getattr(self.node(value).attributes, "zero_point", 0))


class EngineTensors:
    """What an engine made of each tensor."""

    def __init__(self, tensors: FileTensors, values: ModelValues) -> None:
        self._tensors, self._values = tensors, values

    def value(self, name: str) -> np.ndarray | None:
        if self._tensors.of(name) is None or not self._values.has(name):
            return None
        return self._values.value(name)


class KernelTensors:
    """What our kernels made of each tensor that they keep, in one part of a model or in several."""

    def __init__(self, tensors: FileTensors) -> None:
        self._tensors = tensors
        self._names: dict[TensorId, str] = {}
        self.arrays: dict[str, np.ndarray] = {}

    def add(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.arrays.update(arrays)
        for name in arrays:
            value = name.removesuffix(COUNTED)
            tensor = self._tensors.of(value)
            if tensor is not None and self._tensors.has_shape(value, arrays[name]):
                self._names.setdefault(tensor, name)

    def name(self, value: str) -> str | None:
        """What the kernels call the tensor of a value."""
        tensor = self._tensors.of(value)
        return None if tensor is None else self._names.get(tensor)

    def value(self, value: str) -> np.ndarray | None:
        name = self.name(value)
        if name is None:
            return None
        array, grid = self.arrays[name], self._tensors.grid(value)
        if name.endswith(COUNTED):
            assert grid is not None, f"'{name}' counts the steps of no grid"
            array = np.asarray(array * np.float32(grid[0].scale[0]))
        return self._tensors.converted(array, value)


def play_all(lowering: LoweringInput, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All values of a graph, those on the way through copies, so that they stay as they are."""
    graph = lowering.graph
    copies = {
        name: f"{name}/seen"
        for node in graph.nodes
        for name in node.outputs
        if name not in graph.outputs
    }
    player = players.make_player(
        lowering.device, lowering._replace(graph=_with_copies(graph, copies)).plan()
    )
    try:
        results: Sequence[np.ndarray] = player.run([arrays[name] for name in graph.arguments])
    finally:
        player.close()
    return {**arrays, **dict(zip((*graph.results, *copies), results, strict=True))}


def _with_copies(graph: Graph, copies: Mapping[str, str]) -> Graph:
    nodes = tuple(Node("identity", (name,), (copy,)) for name, copy in copies.items())
    types = {**graph.types, **{copy: graph.types[name] for name, copy in copies.items()}}
    outputs = (*graph.outputs, *copies.values())
    return replace(graph, nodes=(*graph.nodes, *nodes), types=types, outputs=outputs)
