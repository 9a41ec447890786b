"""The values of a model by the tensors of its file: an engine's, and those of our own kernels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from fourfold import backends
from fourfold.backends.cpu.protocol import ModelValues
from fourfold.compiler.pipeline import LoweringInput
from fourfold.formats import Model
from fourfold.graph import Graph, Node
from fourfold.plan.tensor_binding import TensorId
from fourfold.types import DType, Quantization, TensorType, dequantize, to_integers

Grid = tuple[Quantization, DType]
COUNTED = "/steps"  # the ending of values that count the steps of the value before it
FETCHED = 2**28  # bytes of values that one run gives, at most, but for a larger one
SUMS = ("mean", "sum", "variance")
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

    def summed(self, value: str) -> int:
        """How many numbers each of a value's is the sum of, one after another, in reductions."""
        node, types = self.node(value), self._graph.types
        if node.op not in SUMS:
            return 1
        size = math.prod(types[str(node.inputs[0])].shape)
        return size // max(math.prod(types[value].shape), 1)

    def _has_numbers(self, value: str) -> bool:
        return self._graph.types[value].dtype.has_numpy

    def is_value(self, value: str, type: TensorType) -> bool:
        """Whether a value has its type's shape: a rewrite may use its name for another layout."""
        known = self._graph.types.get(value)
        return known is not None and type.shape == known.shape and type.dtype.has_numpy

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
        self._arrays: dict[str, np.ndarray] = {}

    def choose(self, graph: Graph) -> list[str]:
        """The values of a part that stand for tensors, one for each, and what the part gives."""
        made = (name for node in graph.nodes for name in node.outputs)
        for name in (*graph.arguments, *graph.results, *made):
            value = name.removesuffix(COUNTED)
            tensor = self._tensors.of(value)
            if tensor is not None and self._tensors.is_value(value, graph.types[name]):
                self._names.setdefault(tensor, name)
        chosen = {*self._names.values(), *graph.results}
        return [name for name in graph.producers if name in chosen]

    def add(self, name: str, array: np.ndarray) -> None:
        self._arrays[name] = _packed(array) if name.endswith(COUNTED) else array

    def has(self, name: str) -> bool:
        return name in self._arrays

    def array(self, name: str) -> np.ndarray | None:
        """A value as the kernels have it."""
        found = self._arrays.get(name)
        counts = found is not None and name.endswith(COUNTED) and found.dtype.kind != "f"
        return found.astype(np.float32) if found is not None and counts else found

    def known(self, name: str) -> np.ndarray:
        """The same of one that is kept."""
        found = self.array(name)
        assert found is not None, f"'{name}' is kept by nobody"
        return found

    def name(self, value: str) -> str | None:
        """What the kernels call the tensor of a value."""
        tensor = self._tensors.of(value)
        found = None if tensor is None else self._names.get(tensor)
        return found if found in self._arrays else None

    def value(self, value: str) -> np.ndarray | None:
        name = self.name(value)
        array = None if name is None else self.array(name)
        if name is None or array is None:
            return None
        grid = self._tensors.grid(value)
        if name.endswith(COUNTED):
            assert grid is not None, f"'{name}' counts the steps of no grid"
            array = np.asarray(array * np.float32(grid[0].scale[0]))
        return self._tensors.converted(array, value)


def _packed(array: np.ndarray) -> np.ndarray:
    """Whole numbers in as few bytes as they need; what holds others as it is."""
    low, high = (array.min(), array.max()) if array.size else (0, 0)
    for kind in (np.int8, np.uint8, np.int16):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            packed = array.astype(kind)
            return packed if np.array_equal(packed, array) else array
    return array


def play_all(
    lowering: LoweringInput, arrays: Mapping[str, np.ndarray], names: Sequence[str]
) -> Iterator[tuple[str, np.ndarray]]:
    """These values of a graph, those on the way through copies, so that they stay as they are.

    Large ones come by several runs, so that whoever packs them never has all at once.
    """
    graph = lowering.graph
    copies = {name: f"{name}/seen" for name in names if name not in graph.outputs}
    plan = lowering._replace(graph=_with_copies(graph, copies)).plan()
    player = backends.make_player(lowering.device, plan)
    given, titles = [arrays[name] for name in graph.arguments], (*graph.results, *copies)
    try:
        for group in _groups([port.type for port in plan.outputs]):
            into = [
                np.empty(port.type.shape, port.type.dtype.numpy) if place in group else None
                for place, port in enumerate(plan.outputs)
            ]
            player.reset()  # a state is what it was before the first run
            results = player.run(given, into)
            yield from ((titles[place], results[place]) for place in group)
    finally:
        player.close()


def _groups(types: Sequence[TensorType]) -> Iterator[range]:
    """Neighbours that are fetched together."""
    first, size = 0, 0
    for place, type in enumerate(types):
        if place > first and size + type.bytes > FETCHED:
            yield range(first, place)
            first, size = place, 0
        size += type.bytes
    yield range(first, len(types))


def _with_copies(graph: Graph, copies: Mapping[str, str]) -> Graph:
    """Each value is copied as soon as it is there, so that its memory is free for others again."""
    nodes: list[Node] = []
    for node in graph.nodes:
        seen = (name for name in node.outputs if name in copies)
        nodes += [node, *(Node("identity", (name,), (copies[name],)) for name in seen)]
    types = {**graph.types, **{copy: graph.types[name] for name, copy in copies.items()}}
    outputs = (*graph.outputs, *copies.values())
    return replace(graph, nodes=tuple(nodes), types=types, outputs=outputs)
