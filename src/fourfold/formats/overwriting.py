"""Conversion of files in which an operator may overwrite a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fourfold.formats.batch import OwnTypes, check_batch
from fourfold.formats.conversion import Conversion, FileOperator
from fourfold.types import Shape, TensorType

Names = tuple[str, ...]


@dataclass
class OverwritingConversion(Conversion):
    """Gives every write a value of its own; `values` maps names of the file to their current value.

    `own` has the types of values in the unchanged shapes, if the caller changed the batch.
    """

    values: dict[str, str] = field(default_factory=dict)
    own: Mapping[str, TensorType] = field(default_factory=dict)

    def add_operator(
        self,
        title: str,
        reads: Sequence[str],
        writes: Sequence[str],
        add_nodes: Callable[[Names, Names], None],
    ) -> None:
        """Convert an operator given by the names that it reads and writes in the file.

        `add_nodes` receives the current values of these names.
        """
        inputs = tuple(self.values.get(name, name) for name in reads)
        outputs = tuple(self.builder.fresh(name) for name in writes)
        operator = FileOperator(title, inputs, outputs)
        self.convert(operator, lambda: self._checked(operator, inputs, add_nodes))
        self.values.update(zip(writes, outputs, strict=True))

    def _checked(
        self, operator: FileOperator, inputs: Names, add_nodes: Callable[[Names, Names], None]
    ) -> None:
        before = len(self.builder.nodes)
        with np.errstate(all="ignore"):  # parameters may hold any bit pattern
            add_nodes(inputs, operator.outputs)
        if self.own:
            read = {value: self.own[value] for value in inputs}
            written = {value: self.own[value] for value in operator.outputs}
            nodes = self.builder.nodes[before:]
            check_batch(self.builder, str(operator), OwnTypes(read, written), nodes)

    def own_shapes(self, values: Names) -> tuple[Shape, ...]:
        """Return the shapes that values have in the file; () if the batch was not changed."""
        return tuple(self.own[value].shape for value in values) if self.own else ()
