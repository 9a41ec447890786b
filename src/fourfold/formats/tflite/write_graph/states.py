"""Writes states as TFLite variables: read first, assigned last, and initialized once.

LiteRT refuses to read a variable that was never assigned, so a separate graph, which the first run
calls, assigns all of them.
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
        """Read every state before any node."""
        draft, states = self.values.draft, self.values.graph.states
        if states:
            draft.operator("CALL_ONCE", [], [], init_subgraph=STARTING_GRAPH)
        for state in states:
            self.handles[state] = _handle(draft, state)
            tensor = self.values.declare(state)
            draft.operator("READ_VARIABLE", [self.handles[state]], [tensor])

    def keep(self) -> None:
        """Assign every state its value for the next run, after all nodes."""
        draft, states = self.values.draft, self.values.graph.states
        for state, after in states.items():
            form = self.values.form(state)
            value = self.values.plain(after) if form is None else self.values.stored_as(after, form)
            draft.operator("ASSIGN_VARIABLE", [self.handles[state], value], [])

    def starting_graph(self) -> SubgraphRecord:
        """Return the graph that assigns the initial values of all states."""
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
