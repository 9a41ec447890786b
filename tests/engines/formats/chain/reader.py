"""Converts a chain to a Model. The tensors of these files are identified by name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from fourfold.formats.inputs import ReadOptions
from fourfold.formats.model import Model, SourceGraph
from fourfold.formats.source import ModelSource
from fourfold.graph import NONE, Graph, Node
from fourfold.ops.foreign import Foreign
from fourfold.types import TensorType

OPS = {"Relu": "relu", "Square": "square"}


def operators() -> Mapping[str, str]:
    return {name: f"{op}." for name, op in OPS.items()}


class ChainGraph(SourceGraph):
    def __init__(self, content: bytes) -> None:
        self._content, self._file = content, json.loads(content)

    @property
    def content(self) -> bytes:
        return self._content

    @cached_property
    def titles(self) -> Mapping[str, str]:
        return {name: op for op, name in self._file["chain"]}

    @cached_property
    def values(self) -> Mapping[str, str]:
        return {name: name for name in (self._file["input"], *self.titles)}

    def reads(self, unit: str) -> tuple[str, ...]:
        order = list(self.values)
        return (order[order.index(unit) - 1],)

    def writes(self, unit: str) -> tuple[str, ...]:
        return (unit,)

    def write(self, units: Sequence[str], inputs: Sequence[str], outputs: Sequence[str]) -> bytes:
        (given,) = inputs
        chain = [[self.titles[unit], unit] for unit in units]
        return json.dumps({**self._file, "chain": chain, "input": given}).encode()


def read(source: ModelSource, options: ReadOptions) -> Model:
    content = bytes(source.content[:])
    file: dict[str, Any] = json.loads(content)
    type_ = TensorType.parse(f"f32{file['shape']}".replace(" ", ""))
    names, nodes = [file["input"]], []
    for op, name in file["chain"]:
        why = "this operator is not supported"
        foreign = Foreign("chain", (len(nodes),), op, why, (type_,), (type_,))
        kind = (OPS[op], NONE) if op in OPS else ("foreign", foreign)
        nodes.append(Node(kind[0], (names[-1],), (name,), kind[1], name=name))
        names.append(name)
    types = dict.fromkeys(names, type_)
    graph = Graph(tuple(nodes), (names[0],), (names[-1],), types)
    return Model(graph, graph.inputs, graph.outputs, source_graph=ChainGraph(content))
