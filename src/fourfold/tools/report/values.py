"""Values of the tensors of a model file, as a CPU engine and our kernels compute them."""

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
COUNTED = "/steps"  # suffix of values that hold another value in quantization steps
MAX_FETCHED_BYTES = 2**28  # of values that one run returns, unless a single one is larger
SUMS = ("mean", "sum", "variance")
FOREIGN = "foreign"  # op of nodes that only the file's own engine can run


class FileTensors:
    """Maps values of a model's graph to tensors of its file, in the order of execution."""

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
        if self._source is None or self._source.tensor(value) is None:
            return None
        return self._source.grid(value)

    def node(self, value: str) -> Node:
        return self._graph.producers[value]

    def title(self, value: str) -> str:
        """Return the file's name of the operator that produces a value."""
        node = self.node(value)
        return node.op if self._source is None else self._source.titles.get(node.name, node.op)

    def rounds(self, value: str) -> bool:
        """Return whether the file's engine rounds the inputs of the value's operator."""
        name, source = self.node(value).name, self._source
        return source is not None and name in source.titles and source.rounds(name)

    def zero_shift(self, value: str) -> float:
        """Return the shift of a value, in steps, if its engine rounds the input's zero point to
        the value's own steps, as LiteRT's means do; 0 for operators with several inputs.
        """
        name, source = self.node(value).name, self._source
        reads = source.reads(name) if source is not None and name in source.titles else ()
        before = self.grid(reads[0]) if len(reads) == 1 else None
        after = self.grid(value)
        if before is None or after is None:
            return 0.0
        zero_point = before[0].zero_point[0] * before[0].scale[0] / after[0].scale[0]
        return zero_point - round(zero_point)

    def summed(self, value: str) -> int:
        """Return how many numbers a reduction adds for each of its results; 1 for other ops."""
        node, types = self.node(value), self._graph.types
        if node.op not in SUMS:
            return 1
        size = math.prod(types[str(node.inputs[0])].shape)
        return size // max(math.prod(types[value].shape), 1)

    def _has_numbers(self, value: str) -> bool:
        return self._graph.types[value].dtype.has_numpy

    def is_value(self, value: str, type: TensorType) -> bool:
        """Return whether a value has this shape: rewrites may reuse its name for another layout."""
        own = self._graph.types.get(value)
        return own is not None and type.shape == own.shape and type.dtype.has_numpy

    def converted(self, array: np.ndarray, value: str) -> np.ndarray:
        """Return a tensor in the form of the graph's value: real numbers or integers."""
        real, grid = self._graph.types[value].dtype is DType.F32, self.grid(value)
        if grid is None or real == (array.dtype.kind == "f"):
            return array
        return dequantize(array, grid[0]) if real else to_integers(array, *grid)

    def steps(self, array: np.ndarray, value: str, step: float) -> np.ndarray:
        """Return a value in steps from its zero point."""
        if array.dtype.kind == "f":
            return np.asarray(array.astype(np.float64) / step)
        grid = self.grid(value)
        point = grid[0].zero_point[0] if grid is not None else self._zero_point(value)
        return array.astype(np.float64) - point

    def _zero_point(self, value: str) -> int:
        return int(getattr(self.node(value).attributes, "zero_point", 0))


class EngineTensors:
    """Tensors as a CPU engine computed them."""

    def __init__(self, tensors: FileTensors, values: ModelValues) -> None:
        self._tensors, self._values = tensors, values

    def value(self, name: str) -> np.ndarray | None:
        if self._tensors.of(name) is None or not self._values.has(name):
            return None
        return self._values.value(name)


class KernelTensors:
    """Tensors as our kernels computed them, in one part of a model or in several."""

    def __init__(self, tensors: FileTensors) -> None:
        self._tensors = tensors
        self._names: dict[TensorId, str] = {}
        self._arrays: dict[str, np.ndarray] = {}

    def choose(self, graph: Graph) -> list[str]:
        """Return the values of a part to fetch: one for each tensor, and the part's results."""
        produced = (name for node in graph.nodes for name in node.outputs)
        for name in (*graph.arguments, *graph.results, *produced):
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
        """Return a value as the kernels have it, or None."""
        array = self._arrays.get(name)
        counts = array is not None and name.endswith(COUNTED) and array.dtype.kind != "f"
        return array.astype(np.float32) if array is not None and counts else array

    def known(self, name: str) -> np.ndarray:
        """Return a value that was fetched."""
        array = self.array(name)
        assert array is not None, f"'{name}' was not fetched"
        return array

    def name(self, value: str) -> str | None:
        """Return the kernels' name for the tensor of a value, or None if it was not fetched."""
        tensor = self._tensors.of(value)
        name = None if tensor is None else self._names.get(tensor)
        return name if name in self._arrays else None

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
    """Return integers in the smallest dtype that holds them; other arrays unchanged."""
    low, high = (array.min(), array.max()) if array.size else (0, 0)
    for kind in (np.int8, np.uint8, np.int16):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            packed = array.astype(kind)
            return packed if np.array_equal(packed, array) else array
    return array


def play_all(
    lowering: LoweringInput, arrays: Mapping[str, np.ndarray], names: Sequence[str]
) -> Iterator[tuple[str, np.ndarray]]:
    """Run a part and yield these values; intermediate ones are copied before they are overwritten.

    Large values are fetched in several runs, so that not all are in memory at once.
    """
    graph = lowering.graph
    copies = {name: f"{name}/seen" for name in names if not graph.is_output(name)}
    plan = lowering._replace(graph=_with_copies(graph, copies)).plan()
    player = backends.make_player(lowering.device, plan)
    inputs, titles = [arrays[name] for name in graph.arguments], (*graph.results, *copies)
    try:
        for group in _groups([port.type for port in plan.outputs]):
            into = [
                np.empty(port.type.shape, port.type.dtype.numpy) if place in group else None
                for place, port in enumerate(plan.outputs)
            ]
            player.reset()  # states start anew in each run
            results = player.run(inputs, into)
            yield from ((titles[place], results[place]) for place in group)
    finally:
        player.close()


def _groups(types: Sequence[TensorType]) -> Iterator[range]:
    """Yield ranges of outputs to fetch in one run."""
    first, size = 0, 0
    for place, type in enumerate(types):
        if place > first and size + type.bytes > MAX_FETCHED_BYTES:
            yield range(first, place)
            first, size = place, 0
        size += type.bytes
    yield range(first, len(types))


def _with_copies(graph: Graph, copies: Mapping[str, str]) -> Graph:
    """Copy each value right after it is produced, so that its memory can be reused."""
    nodes: list[Node] = []
    for node in graph.nodes:
        seen = (name for name in node.outputs if name in copies)
        nodes += [node, *(Node("identity", (name,), (copies[name],)) for name in seen)]
    types = {**graph.types, **{copy: graph.types[name] for name, copy in copies.items()}}
    outputs = (*graph.outputs, *copies.values())
    return replace(graph, nodes=tuple(nodes), types=types, outputs=outputs)
