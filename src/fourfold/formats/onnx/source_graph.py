"""OnnxSourceGraph: the main graph of a file, whose parts can be written as files."""

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
    """The main graph of a file, with its units and values by name."""

    source: Content
    file: FileRecord
    files: ExternalFiles
    converted: Converted

    @property
    def known(self) -> Mapping[str, np.ndarray]:
        return self.converted.known

    @cached_property
    def units(self) -> Mapping[str, NodeRecord]:
        """Return the nodes by the first of their results that is read."""
        numbers = needed_nodes(self.file.graph)
        read = read_names(self.file.graph, numbers)
        nodes = (self.file.graph.nodes[number] for number in numbers)
        return {next(name for name in node.outputs if name in read): node for node in nodes}

    @cached_property
    def titles(self) -> Mapping[str, str]:
        return {name: node.title for name, node in self.units.items()}

    @property
    def content(self) -> bytes:
        """Return the file, with external data embedded."""
        if not any(is_external(tensor) for tensor in self.file.graph.initializers.values()):
            return bytes(self.source)
        inputs = [value.name for value in self.file.graph.inputs if value.name in self.values]
        return self.write(list(self.units), inputs, [one.name for one in self.file.graph.outputs])

    @cached_property
    def values(self) -> Mapping[str, str]:
        """Return the values by name; the two are equal in ONNX. Initializers are not values."""
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
        selected = set(units)
        excerpt = Excerpt(
            nodes=[node for name, node in self.units.items() if name in selected],
            inputs=[self._port(name) for name in inputs],
            outputs=[self._port(name) for name in outputs],
            known=self.known,
            changed=self.converted.changed,
            float16_values=self.converted.float16_values,
        )
        return write_excerpt(self.file, self.files, excerpt)

    def _port(self, value: str) -> Port:
        name = self.tensor(value)
        assert isinstance(name, str), f"'{value}' is not a value of the file"
        declared, type = (
            self.file.graph.values.get(name),
            self.converted.types.get(self.converted.names[name]),
        )
        if declared is not None and declared.element is not None:
            element = declared.element
        elif name in self.converted.float16_values:
            element = Element.FLOAT16
        else:
            element = Element.FLOAT if type is None else ELEMENTS[type.dtype]
        is_sized = type is not None and name not in self.converted.unsized
        return Port(name, element, type.shape if is_sized and type is not None else None)
