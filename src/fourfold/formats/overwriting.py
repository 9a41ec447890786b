"""Conversion of files in which an operator may write again what another one has written."""

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
    """Every write is a value of its own; `values` has the one that each name of the file stands for
    by now. `own` are the types that values have where the caller changes no shape, for those who
    have changed the batch.
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
        """An operator by the names that it reads and writes in the file; `add_nodes` gets the
        values for them.
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
        with np.errstate(all="ignore"):  # parameters may be anything
            add_nodes(inputs, operator.outputs)
        if self.own:
            read = {value: self.own[value] for value in inputs}
            written = {value: self.own[value] for value in operator.outputs}
            nodes = self.builder.nodes[before:]
            check_batch(self.builder, str(operator), OwnTypes(read, written), nodes)

    def own_shapes(self, values: Names) -> tuple[Shape, ...]:
        """The shapes that values have in the file; () where nobody needs them."""
        return tuple(self.own[value].shape for value in values) if self.own else ()
