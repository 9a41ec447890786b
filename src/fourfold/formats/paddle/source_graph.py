"""PaddleSourceGraph: a program whose parts can be written as models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fourfold.formats.model import SourceGraph
from fourfold.formats.paddle.conversion import written_by
from fourfold.formats.paddle.records import OperatorRecord, Program
from fourfold.formats.paddle.write import Excerpt, write_excerpt


@dataclass(frozen=True)
class PaddleSourceGraph(SourceGraph):
    """A program that can be split; `known` has its parameters and constants folded from them."""

    program: Program
    known: Mapping[str, np.ndarray]

    @cached_property
    def units(self) -> Mapping[str, OperatorRecord]:
        """Return the operators by the first variable that they write."""
        written = ((written_by(one), one) for one in self.program.operators)
        return {names[0]: one for names, one in written if names}

    @cached_property
    def titles(self) -> Mapping[str, str]:
        return {name: one.type for name, one in self.units.items()}

    @property
    def content(self) -> bytes:
        return self.write(list(self.units), self.program.feeds, [*self.program.fetches.values()])

    @cached_property
    def values(self) -> Mapping[str, str]:
        """Return the variables by name; the two are equal in Paddle."""
        written = (name for one in self.program.operators for name in written_by(one))
        return {name: name for name in (*self.program.feeds, *written)}

    def reads(self, unit: str) -> tuple[str, ...]:
        names = dict.fromkeys(self.units[unit].read)
        return tuple(name for name in names if name not in self.known)

    def writes(self, unit: str) -> tuple[str, ...]:
        return tuple(written_by(self.units[unit]))

    def write(
        self,
        units: Sequence[str],
        inputs: Sequence[str],
        outputs: Sequence[str],
    ) -> bytes:
        selected = set(units)
        operators = [one for name, one in self.units.items() if name in selected]
        written = {name for one in operators for name in written_by(one)}
        read = {name for one in operators for name in one.read} - written
        excerpt = Excerpt(
            operators=operators,
            inputs=[self._variable(name) for name in inputs],
            outputs=[self._variable(name) for name in outputs],
            variables=self.program.variables,
            parameters={name: self.known[name] for name in sorted(read) if name in self.known},
        )
        return write_excerpt(excerpt)

    def _variable(self, value: str) -> str:
        name = self.tensor(value)
        assert isinstance(name, str), f"'{value}' is not a variable of the program"
        return name
