"""Node and Graph: the model as immutable data in NHWC layout; prints one node per line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np

from fourfold.types import Quantization, TensorType


@dataclass(frozen=True)
class NoAttributes:
    """Attributes of ops without parameters."""


NONE = NoAttributes()
MAX_PRINTED = 64  # inputs of a node that its text lists; a plan repeats the text for each launch


@dataclass(frozen=True)
class Step:
    """One pointwise op of a tail; `None` in `inputs` is the result of the previous step."""

    op: str
    attributes: object
    inputs: tuple[str | None, ...]


@dataclass(frozen=True)
class Node:
    """One op: the values it reads and writes, its attributes, and its tail.

    The tail is a chain of pointwise ops fused onto the result.
    """

    op: str
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    attributes: object = NONE
    tail: tuple[Step, ...] = ()
    name: str = ""

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """Return every value that this node reads, including its tail, without repetition."""
        names = [*self.inputs, *(name for step in self.tail for name in step.inputs)]
        return tuple(dict.fromkeys(name for name in names if name is not None))

    def renamed(self, names: Mapping[str, str]) -> Node:
        """Return the node with values renamed; names not in the mapping stay."""

        def of(old: Sequence[str | None]) -> tuple[str | None, ...]:
            return tuple(None if name is None else names.get(name, name) for name in old)

        tail = tuple(replace(step, inputs=of(step.inputs)) for step in self.tail)
        outputs = tuple(names.get(name, name) for name in self.outputs)
        return replace(self, inputs=of(self.inputs), outputs=outputs, tail=tail)

    def text(self, short: bool = False) -> str:
        """Return the node as one line; in the short form, without attributes that have their
        default.
        """
        inputs = ", ".join("-" if name is None else name for name in self.inputs[:MAX_PRINTED])
        if len(self.inputs) > MAX_PRINTED:
            inputs += f", … {len(self.inputs) - MAX_PRINTED} more"
        attributes = _attributes(self.attributes, short=short)
        text = f"{', '.join(self.outputs)} = {self.op}({inputs}{attributes})"
        for step in self.tail:
            others = [name for name in step.inputs if name is not None]
            arguments = ", ".join(others) + _attributes(step.attributes, bool(others), short)
            text += f" |> {step.op}({arguments})" if arguments else f" |> {step.op}"
        return text

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__


def _attributes(attributes: object, after: bool = True, short: bool = False) -> str:
    """Return attributes as text; in the short form, without those that have their default."""
    items = [(one, getattr(attributes, one.name)) for one in fields(attributes)]  # type: ignore[arg-type]
    texts = [f"{one.name}={value}" for one, value in items if not short or value != one.default]
    text = ", ".join(texts)
    return f"; {text}" if text and after else text


@dataclass(frozen=True)
class Graph:
    """Nodes in execution order, the type of every value, and the constants.

    `states` maps inputs that callers do not pass to outputs that they do not get: after a run, the
    value of the output becomes the value of the input in the next run. Initial values are in
    `starts`; the default is zeros.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    types: Mapping[str, TensorType]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    quantization: Mapping[str, Quantization] = field(default_factory=dict)
    name: str = "main"
    states: Mapping[str, str] = field(default_factory=dict)
    starts: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the inputs that a caller passes: all except states."""
        return tuple(name for name in self.inputs if name not in self.states)

    @property
    def results(self) -> tuple[str, ...]:
        """Return the outputs that a caller gets: all except new states."""
        state_outputs = set(self.states.values())
        return tuple(name for name in self.outputs if name not in state_outputs)

    @cached_property
    def producers(self) -> Mapping[str, Node]:
        return {name: node for node in self.nodes for name in node.outputs}

    @cached_property
    def readers(self) -> Mapping[str, tuple[Node, ...]]:
        readers: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in node.reads:
                readers.setdefault(name, []).append(node)
        return {name: tuple(nodes) for name, nodes in readers.items()}

    def type(self, name: str) -> TensorType:
        return self.types[name]

    def input_types(self, node: Node) -> tuple[TensorType | None, ...]:
        return tuple(None if name is None else self.types[name] for name in node.inputs)

    @cached_property
    def _output_set(self) -> frozenset[str]:
        return frozenset(self.outputs)

    def is_output(self, name: str | None) -> bool:
        return name in self._output_set

    def is_constant(self, name: str | None) -> bool:
        return name is not None and name in self.constants

    def with_nodes(self, nodes: tuple[Node, ...], **changes: object) -> Graph:
        """Return the graph with other nodes, without values that are no longer used."""
        graph = replace(self, nodes=nodes, **changes)  # type: ignore[arg-type]
        used = {*graph.inputs, *graph.outputs}
        for node in graph.nodes:
            used.update(node.reads, node.outputs)
        keep = {
            key: {name: item for name, item in getattr(graph, key).items() if name in used}
            for key in ("types", "constants", "quantization")
        }
        return replace(graph, **keep)  # type: ignore[arg-type]

    def lines(self) -> Iterator[str]:
        for name in self.arguments:
            yield f"input {name}: {self._typed(name)}"
        for name, after in self.states.items():
            yield f"state {name}, then {after}: {self._typed(name)}"
        for node in self.nodes:
            yield f"{node}: {', '.join(self._typed(name) for name in node.outputs)}"
        yield f"output {', '.join(self.results)}"

    def _typed(self, name: str) -> str:
        quantization = self.quantization.get(name)
        return f"{self.types[name]}{'' if quantization is None else f' {quantization}'}"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def short_text(self) -> str:
        """Return the graph as text with numbers for values, types for constants, and without
        attributes that have their default: `%3 = conv2d(%2, f32[8,3,3,4], f32[8]): f32[1,16,16,8]`.
        """
        names = {name: f"%{at}" for at, name in enumerate(self.inputs)}
        for node in self.nodes:
            names |= {name: f"%{len(names) + at}" for at, name in enumerate(node.outputs)}
        shown = {**{name: str(self.types[name]) for name in self.constants}, **names}
        lines = [f"input {names[name]} {name}: {self._typed(name)}" for name in self.arguments]
        lines += [
            f"state {names[name]} {name}, then {shown[after]}: {self._typed(name)}"
            for name, after in self.states.items()
        ]
        for node in self.nodes:
            types = ", ".join(self._typed(name) for name in node.outputs)
            lines.append(f"{node.renamed(shown).text(short=True)}: {types}")
        lines.append(f"output {', '.join(f'{shown[name]} {name}' for name in self.results)}")
        return "\n".join(lines)
