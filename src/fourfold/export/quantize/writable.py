"""Convert a storage assignment to the graph that a format's writer takes.

A node whose result is stored as integers computes on integers, and so does a node whose clamp is
fused into it. All others compute on real numbers. Values that are made as real numbers and read as
integers get a quantized copy. So do inputs and outputs of the model, which stay float.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from fourfold.export.quantize.layers import fused_clamp
from fourfold.export.quantize.storage import Operand, StorageAssignment, fresh_name
from fourfold.formats import Model
from fourfold.formats.writable import StoredAs, WritableModel
from fourfold.graph import Graph, Node
from fourfold.types import DType, TensorType


def to_writable(
    storage: StorageAssignment, model: Model, integer_ports: bool = False
) -> WritableModel:
    """Return the model in the form that a writer of any format takes.

    `integer_ports` makes inputs and outputs integers if nodes read or make them as integers.
    """
    work = _Work(storage, integer_ports)
    for node in storage.graph.nodes:
        work.add(node)
    return WritableModel(
        graph=work.graph(),
        input_names=model.input_names,
        output_names=model.output_names,
        stored=work.stored,
        description=model.description,
        metadata=model.metadata,
    )


@dataclass
class _Work:
    """The nodes and storage types so far. `copies` are quantized copies of values."""

    storage: StorageAssignment
    integer_ports: bool
    nodes: list[Node] = field(default_factory=list)
    stored: dict[str, StoredAs] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    copies: dict[tuple[str, StoredAs], str] = field(default_factory=dict)
    inner: dict[str, str] = field(default_factory=dict)  # outputs -> their integer values

    def __post_init__(self) -> None:
        self.types = dict(self.storage.graph.types)
        self.taken = set(self.types)
        if self.integer_ports:
            graph, grids = self.storage.graph, self.storage.grids
            self.stored |= {name: grids[name] for name in graph.arguments if name in grids}

    def add(self, node: Node) -> None:
        count = self.storage.input_count(node)
        inputs = tuple(self._input(node, at) for at in range(count))
        output = node.outputs[0]
        if not self.storage.on_integers(node):
            self.nodes.append(replace(node, inputs=inputs))
            return
        target = self._integer_value(output)
        self.nodes.append(replace(node, inputs=inputs, outputs=(target,)))
        if fused_clamp(self.storage.graph, node) is None:
            self.stored[target] = self.storage.grids[output]
        if target != output:
            self.nodes.append(Node("identity", (target,), (output,), name=node.name))

    def _integer_value(self, output: str) -> str:
        """Return the value that an integer node makes; an output of the model is a float copy
        of it.
        """
        graph = self.storage.graph
        is_port = output in graph.outputs
        if not is_port or (self.integer_ports and output in graph.results):
            return output
        self.inner[output] = self._new_value(f"{output}/quantized", output)
        return self.inner[output]

    def _input(self, node: Node, at: int) -> str | None:
        place, storage = (node.outputs[0], at), self.storage
        name = node.inputs[at] if at < len(node.inputs) else None
        operand = storage.operands.get(place)
        if operand is not None:
            return self._constant(name or f"{node.outputs[0]}/bias", operand)
        if name is None or not storage.on_integers(node) or name not in storage.grids:
            return name
        stored = storage.regrids.get(place, storage.grids[name])
        on_integers = storage.is_made(name) or name in self.stored
        source = self.inner.get(name, name)
        return (
            source if on_integers and place not in storage.regrids else self._copy(source, stored)
        )

    def _constant(self, name: str, operand: Operand) -> str:
        """Store a constant under its own name, unless another node reads it in another type."""
        known, stored = self.constants.get(name), operand.stored
        equal = known is not None and np.array_equal(known, operand.array)
        if not (equal and self.stored.get(name) == stored):
            name = name if self._is_free(name) else fresh_name(name, self.taken)
            self.constants[name], self.types[name] = operand.array, TensorType.of(operand.array)
            self.taken.add(name)
            if stored.dtype is not DType.F32:
                self.stored[name] = stored
        return name

    def _is_free(self, name: str) -> bool:
        """Return True if a single node reads this constant of the graph, or the name is new."""
        readers = self.storage.graph.readers.get(name, ())
        return name not in self.constants and (len(readers) == 1 or name not in self.taken)

    def _copy(self, name: str, stored: StoredAs) -> str:
        if (name, stored) not in self.copies:
            copy = self._new_value(f"{name}/quantized", name)
            self.nodes.append(Node("identity", (name,), (copy,), name=copy))
            self.stored[copy] = stored
            self.copies[name, stored] = copy
        return self.copies[name, stored]

    def _new_value(self, name: str, like: str) -> str:
        fresh = fresh_name(name, self.taken)
        self.types[fresh] = self.types[like]
        return fresh

    def graph(self) -> Graph:
        graph = self.storage.graph
        constants = {**graph.constants, **self.constants}
        nodes = tuple(self.nodes)
        return graph.with_nodes(nodes, types=self.types, constants=constants, quantization={})
