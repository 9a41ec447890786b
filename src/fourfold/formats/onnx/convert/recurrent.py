"""Recurrent operators, unrolled to matrix products and pointwise ops per step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.formats.onnx.operation import Operation, converts
from fourfold.formats.rule_table import Unconvertible
from fourfold.ops.concat import Concat
from fourfold.ops.reshape import Reshape
from fourfold.ops.slice import Slice

MAX_STEPS = 256  # steps; a longer unrolled graph would be slower than a loop
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_DEFAULTS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
_FUNCTIONS = {"sigmoid": "logistic", "tanh": "tanh", "relu": "relu"}


@dataclass(frozen=True)
class _Cell:
    """One direction: weights [rows, columns] for input and state, with two biases or none."""

    op: Operation
    number: int
    weights: str
    recurrent: str
    biases: tuple[str, ...]
    functions: tuple[str, ...]
    peepholes: str | None

    @property
    def hidden(self) -> int:
        return self.op.type_of(self.recurrent).shape[1]

    @property
    def input_bias(self) -> str | None:
        return self.biases[0] if self.biases else None

    @property
    def state_bias(self) -> str | None:
        return self.biases[1] if self.biases else None

    def add(self, name: str, *inputs: str | None, attributes: object | None = None) -> str:
        part = f"{self.number}/{name}"
        if attributes is None:
            return self.op.add(name, *inputs, part=part)
        return self.op.add(name, *inputs, attributes=attributes, part=part)

    def gate(self, value: str, index: int) -> str:
        """Return one block of columns of a product."""
        rows, hidden = self.op.type_of(value).shape[0], self.hidden
        box = Slice((0, index * hidden), (rows, hidden), (1, 1))
        return self.add("slice", value, attributes=box)

    def product(self, state: str) -> str:
        return self.add("fully_connected", state, self.recurrent, self.state_bias)

    def sum(self, a: str, b: str) -> str:
        return self.add("add", a, b)

    def through(self, index: int, value: str) -> str:
        return self.add(self.functions[index], value)


@converts("LSTM", "GRU", "RNN")
def recurrent(op: Operation) -> None:
    """fully_connected, slices and pointwise ops for each step and direction."""
    kind, x = op.record.op, op.input(0)
    direction = op.text_attribute("direction", "forward")
    cells = _cells(op, {"forward": 1, "reverse": 1, "bidirectional": 2}.get(direction, 0))
    if op.attribute("layout", 0):
        x = op.transposed(x, (1, 0, 2), "steps_first")
    steps, batch, _ = op.type_of(x).shape
    _check(op, steps, batch)
    rows, last, memory = [], [], []
    for number, cell in enumerate(cells):
        backward = direction == "reverse" or number == 1
        states = [_start(op, index, number, (batch, cell.hidden)) for index in (5, 6)]
        results = _run(cell, x, states, backward, kind)
        rows.append(results[0])
        last.append(results[1])
        memory.append(results[2])
    _give(op, rows, last, memory)


def _check(op: Operation, steps: int, batch: int) -> None:
    lengths = op.known(op.optional(4))
    if op.optional(4) is not None and (lengths is None or not (lengths == steps).all()):
        raise Unconvertible("separate sequence lengths are not supported")
    if op.has("clip") or op.attribute("input_forget", 0):
        raise Unconvertible("clipping and coupled gates (input_forget) are not supported")
    if not 0 < steps <= MAX_STEPS or batch < 1:
        raise Unconvertible(f"{steps} steps are too many to unroll")


def _cells(op: Operation, directions: int) -> list[_Cell]:
    kind = op.record.op
    shapes = [op.input_type(index).shape for index in (1, 2)]
    if any(len(shape) != 3 or shape[0] != directions for shape in shapes):
        raise ValueError(f"weights of {shapes[0]} do not fit {directions} directions")
    names = _functions(op, directions)
    peeps = kind == "LSTM" and op.optional(7) is not None
    cells = []
    for number in range(directions):
        rows = _GATES[kind] * shapes[1][2]
        offsets = () if op.optional(3) is None else (0, rows)
        own = names[number * len(_DEFAULTS[kind]) :][: len(_DEFAULTS[kind])]
        cells.append(
            _Cell(
                op,
                number,
                weights=_own(op, 1, number, 0, rows),
                recurrent=_own(op, 2, number, 0, rows),
                biases=tuple(_own(op, 3, number, first, rows) for first in offsets),
                functions=own,
                peepholes=_own(op, 7, number, 0, 3 * shapes[1][2]) if peeps else None,
            )
        )
    return cells


def _own(op: Operation, index: int, number: int, first: int, count: int) -> str:
    """Return the rows or numbers of an input that belong to one direction."""
    inner = op.input_type(index).shape[2:]
    zeros, ones = (0,) * len(inner), (1,) * (2 + len(inner))
    box = Slice((number, first, *zeros), (1, count, *inner), ones)
    cut = op.add("slice", op.input(index), attributes=box, part=f"own{index}")
    return op.reshaped(cut, (count, *inner), f"matrix{index}")


def _functions(op: Operation, directions: int) -> tuple[str, ...]:
    """Return the ops of the gates."""
    activations = op.texts_attribute("activations") or _DEFAULTS[op.record.op] * directions
    names = tuple(_FUNCTIONS.get(name.lower(), "") for name in activations)
    if "" in names or len(names) != len(_DEFAULTS[op.record.op]) * directions:
        raise Unconvertible(f"its activations {list(activations)} are not supported")
    return names


def _start(op: Operation, index: int, number: int, shape: tuple[int, int]) -> str:
    """Return the initial state: an input, or zeros."""
    initial = op.optional(index)
    if initial is None or (index == 6 and op.record.op != "LSTM"):
        return op.add_constant(np.zeros(shape, np.float32), "zeros")
    if op.attribute("layout", 0):
        initial = op.transposed(initial, (1, 0, 2), "state_first")
    box = Slice((number, 0, 0), (1, *shape), (1, 1, 1))
    cut = op.add("slice", initial, attributes=box, part="start")
    return op.reshaped(cut, shape, "state")


def _run(
    cell: _Cell, x: str, states: list[str], backward: bool, kind: str
) -> tuple[list[str], str, str]:
    """Return the result of every step in order of time, and the final states."""
    steps, batch, _ = cell.op.type_of(x).shape
    all_steps = cell.add("fully_connected", x, cell.weights, cell.input_bias)
    columns = cell.op.type_of(all_steps).shape[2]
    rows = [""] * steps
    state, memory = states
    for step in reversed(range(steps)) if backward else range(steps):
        box = Slice((step, 0, 0), (1, batch, columns), (1, 1, 1))
        cut = cell.add("slice", all_steps, attributes=box)
        projected = cell.add("reshape", cut, attributes=Reshape((batch, columns)))
        if kind == "LSTM":
            state, memory = _lstm(cell, projected, state, memory)
        elif kind == "GRU":
            state = _gru(cell, projected, state)
        else:
            state = cell.through(0, cell.sum(projected, cell.product(state)))
        rows[step] = state
    return rows, state, memory


def _lstm(cell: _Cell, given: str, state: str, memory: str) -> tuple[str, str]:
    """Compute an LSTM step; gates are in the order input, output, forget, candidate."""
    total = cell.sum(given, cell.product(state))
    input_gate, output_gate, forget_gate, candidate = (
        cell.gate(total, index) for index in range(4)
    )
    input_gate = cell.through(0, _peep(cell, input_gate, memory, 0))
    forget_gate = cell.through(0, _peep(cell, forget_gate, memory, 2))
    learned = cell.add("mul", input_gate, cell.through(1, candidate))
    memory = cell.sum(cell.add("mul", forget_gate, memory), learned)
    output_gate = cell.through(0, _peep(cell, output_gate, memory, 1))
    return cell.add("mul", output_gate, cell.through(2, memory)), memory


def _peep(cell: _Cell, gate: str, memory: str, index: int) -> str:
    if cell.peepholes is None:
        return gate
    part = _rows(cell.op, cell.peepholes, index * cell.hidden, cell.hidden)
    weighted = cell.add("mul", memory, part)
    return cell.sum(gate, weighted)


def _gru(cell: _Cell, given: str, state: str) -> str:
    """Compute a GRU step; gates are in the order update, reset, candidate."""
    product = cell.product(state)
    update = cell.through(0, cell.sum(cell.gate(given, 0), cell.gate(product, 0)))
    reset = cell.through(0, cell.sum(cell.gate(given, 1), cell.gate(product, 1)))
    if cell.op.attribute("linear_before_reset", 0):
        fresh = cell.add("mul", reset, cell.gate(product, 2))
    else:
        fresh = _after_reset(cell, cell.add("mul", reset, state))
    learned = cell.through(1, cell.sum(cell.gate(given, 2), fresh))
    change = cell.add("mul", update, cell.add("sub", state, learned))
    return cell.sum(learned, change)


def _rows(op: Operation, value: str, first: int, count: int) -> str:
    inner = op.type_of(value).shape[1:]
    box = Slice((first, *(0,) * len(inner)), (count, *inner), (1,) * (1 + len(inner)))
    return op.add("slice", value, attributes=box, part="rows")


def _after_reset(cell: _Cell, state: str) -> str:
    """Return the candidate's product with a state that was multiplied by the reset gate."""
    op, hidden = cell.op, cell.hidden
    weights = _rows(op, cell.recurrent, 2 * hidden, hidden)
    bias = None if cell.state_bias is None else _rows(op, cell.state_bias, 2 * hidden, hidden)
    return cell.add("fully_connected", state, weights, bias)


def _give(op: Operation, rows: list[list[str]], last: list[str], memory: list[str]) -> None:
    """Write results [steps, directions, batch, hidden] and states [directions, batch, hidden]."""
    batch, hidden = op.type_of(last[0]).shape
    first = bool(op.attribute("layout", 0))
    if op.output(0) is not None:
        stacked = [
            op.reshaped(row, (1, 1, batch, hidden), "row")
            for step in zip(*rows, strict=True)
            for row in step
        ]
        shape = (len(rows[0]), len(rows), batch, hidden)
        result = stacked[0]
        if len(stacked) > 1:
            result = op.add("concat", *stacked, attributes=Concat(0), part="rows")
        result = op.reshaped(result, shape, "steps")
        op.give_value(op.transposed(result, (2, 0, 1, 3), "batch_first") if first else result)
    for output, states in ((1, last), (2, memory)):
        if op.output(output) is not None:
            parts = [op.reshaped(state, (1, batch, hidden), "state") for state in states]
            result = parts[0]
            if len(parts) > 1:
                result = op.add("concat", *parts, attributes=Concat(0), part="states")
            result = op.transposed(result, (1, 0, 2), "states_first") if first else result
            op.give_value(result, output)
