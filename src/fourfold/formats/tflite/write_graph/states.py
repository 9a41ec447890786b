"""States as TFLite's variables: read first, assigned last, and given what they begin with once.

LiteRT refuses to read a variable that nobody has assigned, so a graph of its own, which the first
run calls, assigns them all.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fourfold.formats.tflite.records import SubgraphRecord
from fourfold.formats.tflite.write_graph.draft import Draft, Tensor
from fourfold.formats.tflite.write_graph.values import Values
from fourfold.types import DType, TensorType, to_integers

STARTING_GRAPH = 1
_HANDLE = TensorType(DType.RESOURCE, ())


@dataclass
class States:
    """The variables of a graph, each with its handle."""

    values: Values
    handles: dict[str, Tensor] = field(default_factory=dict)

    def read(self) -> None:
        """Every state has what the last run left, before any node reads it."""
        draft, states = self.values.draft, self.values.graph.states
        if states:
            draft.operator("CALL_ONCE", [], [], init_subgraph=STARTING_GRAPH)
        for state in states:
            self.handles[state] = _handle(draft, state)
            tensor = self.values.declare(state)
            draft.operator("READ_VARIABLE", [self.handles[state]], [tensor])

    def keep(self) -> None:
        """Every state gets what the next run begins with, after all nodes."""
        draft, states = self.values.draft, self.values.graph.states
        for state, after in states.items():
            form = self.values.form(state)
            value = self.values.plain(after) if form is None else self.values.kept(after, form)
            draft.operator("ASSIGN_VARIABLE", [self.handles[state], value], [])

    def starting_graph(self) -> SubgraphRecord:
        """The graph that gives all states what they begin with."""
        graph, draft = self.values.graph, Draft(self.values.draft.buffers)
        for state in graph.states:
            handle, type = _handle(draft, state), graph.types[state]
            form = self.values.form(state)
            array = graph.starts.get(state)
            first = np.zeros(type.shape, type.dtype.numpy) if array is None else array
            if form is None or form.quantization is None:
                start = draft.constant(f"{state}/start", first)
            else:
                integers = to_integers(first, form.quantization, form.dtype)
                start = draft.stored_constant(
                    f"{state}/start", integers, form.dtype, form.quantization
                )
            draft.operator("ASSIGN_VARIABLE", [handle, start], [])
        return draft.subgraph("start", [], [])


def _handle(draft: Draft, state: str) -> Tensor:
    handle = draft.tensor(f"{state}/variable", _HANDLE)
    draft.operator("VAR_HANDLE", [], [handle], shared_name=state)
    return handle
