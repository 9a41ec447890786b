"""GrownGraph: a graph to which nodes are appended, with types from the operators' own rules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fourfold.errors import InputError
from fourfold.graph import NONE, Graph, Node
from fourfold.ops.base import registry
from fourfold.ops.cast import Cast
from fourfold.ops.concat import Concat
from fourfold.ops.dequantize import Dequantize
from fourfold.ops.reshape import Reshape
from fourfold.ops.slice import Slice
from fourfold.ops.transpose import Transpose
from fourfold.types import DType, Shape, TensorType


class GrownGraph:
    """A graph and the nodes appended to it, which share a title that no other value or node has."""

    def __init__(self, graph: Graph, title: str) -> None:
        taken = {*graph.types, *(node.name for node in graph.nodes)}
        while title in taken:
            title += "_"
        self._graph, self._title = graph, title
        self._types, self._constants = dict(graph.types), dict(graph.constants)
        self._nodes = list(graph.nodes)

    def type(self, value: str) -> TensorType:
        return self._types[value]

    def shape(self, value: str) -> Shape:
        return self._types[value].shape

    def add(self, op: str, *inputs: str, attributes: object = NONE, part: str = "") -> str:
        """Append a node and return its first result."""
        return self.add_all(op, *inputs, attributes=attributes, parts=(part or op,))[0]

    def add_all(
        self, op: str, *inputs: str, attributes: object = NONE, parts: Sequence[str] = ()
    ) -> list[str]:
        """Append a node and return all its results, one per name in `parts`."""
        types = registry()[op].infer(attributes, *(self._types[name] for name in inputs))
        outputs = [self._fresh(part) for part in parts]
        self._types |= dict(zip(outputs, types, strict=True))
        self._nodes.append(Node(op, inputs, tuple(outputs), attributes, name=self._title))
        return outputs

    def constant(self, part: str, array: np.ndarray) -> str:
        name = self._fresh(part)
        self._constants[name], self._types[name] = array, TensorType.of(array)
        return name

    def _fresh(self, part: str) -> str:
        fresh, count = f"{self._title}/{part}", 0
        while fresh in self._types:
            count += 1
            fresh = f"{self._title}/{part}:{count}"
        return fresh

    def real(self, value: str, output: str) -> str:
        """Return an output of the model as floats; `output` is its name for messages."""
        type_, grid = self._types[value], self._graph.quantization.get(value)
        if type_.dtype is DType.F32:
            return value
        if type_.dtype.is_float:
            return self.add("cast", value, attributes=Cast(DType.F32), part="floats")
        if grid is None or len(grid.scale) != 1 or not type_.dtype.is_integer:
            what = f"output {output!r} cannot be processed"
            why = f"it is {type_} without a scale, so its integers have no real values"
            raise InputError(what, why, "process another output, or use this one unprocessed")
        attributes = Dequantize(grid.scale[0], grid.zero_point[0])
        return self.add("dequantize", value, attributes=attributes, part="dequantized")

    def reshape(self, value: str, *shape: int, part: str = "reshaped") -> str:
        if self.shape(value) == shape:
            return value
        return self.add("reshape", value, attributes=Reshape(tuple(shape)), part=part)

    def transpose(self, value: str, *axes: int) -> str:
        if axes == tuple(sorted(axes)):
            return value
        return self.add("transpose", value, attributes=Transpose(axes), part="transposed")

    def cut(self, value: str, axis: int, start: int, stop: int | None = None) -> str:
        """Return the slice of a value along one axis."""
        shape = list(self.shape(value))
        stop = shape[axis] if stop is None else stop
        if (start, stop) == (0, shape[axis]):
            return value
        begin = [0] * len(shape)
        begin[axis], shape[axis] = start, stop - start
        attributes = Slice(tuple(begin), tuple(shape), (1,) * len(shape))
        return self.add("slice", value, attributes=attributes, part="cut")

    def join(self, values: Sequence[str], axis: int) -> str:
        if len(values) == 1:
            return values[0]
        return self.add("concat", *values, attributes=Concat(axis), part="joined")

    def finish(self, outputs: Sequence[str]) -> Graph:
        """Return the graph with these outputs. States are unchanged."""
        kept = set(self._graph.states.values())
        states = [name for name in self._graph.outputs if name in kept]
        return self._graph.with_nodes(
            tuple(self._nodes),
            outputs=(*outputs, *states),
            types=self._types,
            constants=self._constants,
        )
