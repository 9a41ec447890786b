"""The main graph of an ONNX file by the names of its values, to write parts of it out again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fourfold.formats.model import SourceGraph
from fourfold.formats.onnx.external import ExternalFiles
from fourfold.formats.onnx.main_graph import Converted
from fourfold.formats.onnx.records import FileRecord, NodeRecord
from fourfold.formats.onnx.schema import ELEMENTS, Element
from fourfold.formats.onnx.scope import captured, needed_nodes, read_names
from fourfold.formats.onnx.tensors import is_external
from fourfold.formats.onnx.write import Excerpt, Port, write_excerpt
from fourfold.formats.source import Content


@dataclass(frozen=True)
class OnnxSourceGraph(SourceGraph):
    """A graph of a file, its units and its values by name."""

    source: Content
    file: FileRecord
    files: ExternalFiles
    converted: Converted

    @property
    def known(self) -> Mapping[str, np.ndarray]:
        return self.converted.known

    @cached_property
    def units(self) -> Mapping[str, NodeRecord]:
        """The nodes by the first of their results that anybody reads."""
        numbers = needed_nodes(self.file.graph)
        read = read_names(self.file.graph, numbers)
        nodes = (self.file.graph.nodes[number] for number in numbers)
        return {next(name for name in node.outputs if name in read): node for node in nodes}

    @cached_property
    def titles(self) -> Mapping[str, str]:
        return {name: node.title for name, node in self.units.items()}

    @property
    def content(self) -> bytes:
        """The file; data that lie in files beside it are put into it."""
        if not any(is_external(tensor) for tensor in self.file.graph.initializers.values()):
            return bytes(self.source)
        inputs = [value.name for value in self.file.graph.inputs if value.name in self.values]
        return self.write(list(self.units), inputs, [one.name for one in self.file.graph.outputs])

    @cached_property
    def values(self) -> Mapping[str, str]:
        """Names are the tensors' own numbers; initialisers are no values."""
        return {name: name for name in self._value_names()}

    def _value_names(self) -> Iterator[str]:
        held = self.file.graph.initializers
        yield from (value.name for value in self.file.graph.inputs if value.name not in held)
        yield from (name for node in self.file.graph.nodes for name in node.outputs if name)

    def reads(self, unit: str) -> tuple[str, ...]:
        node = self.units[unit]
        names = dict.fromkeys(name for name in (*node.inputs, *captured(node)) if name)
        return tuple(name for name in names if name in self.values and name not in self.known)

    def writes(self, unit: str) -> tuple[str, ...]:
        return tuple(name for name in self.units[unit].outputs if name)

    def write(
        self,
        units: Sequence[str],
        inputs: Sequence[str],
        outputs: Sequence[str],
    ) -> bytes:
        wanted = set(units)
        excerpt = Excerpt(
            nodes=[node for name, node in self.units.items() if name in wanted],
            inputs=[self._port(name) for name in inputs],
            outputs=[self._port(name) for name in outputs],
            known=self.known,
            changed=self.converted.changed,
            halves=self.converted.halves,
        )
        return write_excerpt(self.file, self.files, excerpt)

    def _port(self, value: str) -> Port:
        name = self.tensor(value)
        assert isinstance(name, str), f"'{value}' is no value of the file"
        said, type = (
            self.file.graph.values.get(name),
            self.converted.types.get(self.converted.names[name]),
        )
        if said is not None and said.element is not None:
            element = said.element
        elif name in self.converted.halves:
            element = Element.FLOAT16
        else:
            element = Element.FLOAT if type is None else ELEMENTS[type.dtype]
        known = type is not None and name not in self.converted.unsized
        return Port(name, element, type.shape if known and type is not None else None)
