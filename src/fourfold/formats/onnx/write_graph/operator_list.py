"""OperatorList: operators and constants of an ONNX file while they are put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fourfold.formats.onnx.write_graph.tensor import Initializer
from fourfold.types import DType, Shape

Attribute = int | float | str | Sequence[int]
SMALL = 64  # bytes of a constant up to which equal ones are one


@dataclass(frozen=True)
class WrittenNode:
    """One operator; an input that is left out has no name."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]


@dataclass(frozen=True)
class Port:
    """A value that goes in or out."""

    name: str
    element: int
    shape: Shape


@dataclass
class OperatorList:
    """Tensors have names of their own while operators are added; `names` are those that the file
    has in their place. `title` is what tensors that have no better name are called after.
    """

    title: str = ""
    nodes: list[WrittenNode] = field(default_factory=list)
    initializers: dict[str, Initializer] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _small: dict[tuple[str, Shape, bytes], str] = field(default_factory=dict)

    def fresh(self, name: str) -> str:
        """A name that nothing has yet."""
        found, count = name, 0
        while found in self._taken:
            count += 1
            found = f"{name}:{count}"
        self._taken.add(found)
        return found

    def reserve(self, names: Sequence[str]) -> None:
        """Names that callers know: nothing else may have them."""
        self._taken.update(names)

    def add(self, op: str, *inputs: str | None, **attributes: Attribute) -> str:
        """An operator with one result, which is given back."""
        return self.add_several(op, inputs, 1, attributes)[0]

    def add_several(
        self,
        op: str,
        inputs: Sequence[str | None],
        results: int,
        attributes: Mapping[str, Attribute],
    ) -> tuple[str, ...]:
        read = [name or "" for name in inputs]
        while read and not read[-1]:
            read.pop()
        made = tuple(self.fresh(f"{self.title}/{op}") for _ in range(results))
        self.nodes.append(WrittenNode(op, tuple(read), made, dict(attributes)))
        return made

    def constant(self, array: np.ndarray, name: str = "") -> str:
        """A constant; small ones that are equal are one."""
        key = (array.dtype.str, array.shape, array.tobytes() if array.nbytes <= SMALL else b"")
        if not name and key[2] and key in self._small:
            return self._small[key]
        made = self.fresh(name or f"{self.title}/constant")
        self.initializers[made] = Initializer.of(array)
        if not name:
            self._small[key] = made
        return made

    def number(self, value: float, dtype: DType = DType.F32) -> str:
        return self.constant(np.asarray(value, dtype.numpy))

    def integers(self, values: Sequence[int]) -> str:
        """Sizes, axes and the like, as ONNX takes them."""
        return self.constant(np.asarray(values, np.int64))

    def call(self, tensor: str, name: str) -> None:
        """Gives the result of an operator a name in the file, unless it has one."""
        made = self.nodes and tensor in self.nodes[-1].outputs
        if made and tensor not in self.names and tensor != name:
            self.names[tensor] = self.fresh(name)
