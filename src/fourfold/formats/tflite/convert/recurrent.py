"""Operators with states, which persist between runs until the caller resets them.

Sequence LSTM and SVDF are unrolled to other ops; named variables become states.
"""

from __future__ import annotations

from dataclasses import dataclass

from fourfold.formats.rule_table import Unconvertible
from fourfold.formats.tflite.operation import Operation, converts
from fourfold.formats.tflite.options import (
    LSTMOptions,
    SVDFOptions,
    UnidirectionalSequenceLSTMOptions,
    VarHandleOptions,
)
from fourfold.formats.tflite.schema import ACTIVATIONS
from fourfold.graph import NONE
from fourfold.ops.base.rules import Reduce
from fourfold.ops.concat import Concat
from fourfold.ops.reshape import Reshape
from fourfold.ops.slice import Slice
from fourfold.types import DType, TensorType

MAX_STEPS = 64
_INPUTS, _MEMORY = 24, 4
_FROM_INPUT, _FROM_STATE, _PEEPHOLES, _BIASES = 1, 5, 9, 12
_PROJECTION, _PROJECTION_BIAS, _OUTPUT_STATE, _CELL_STATE, _NORMS = 16, 17, 18, 19, 20
_INPUT_GATE, _FORGET_GATE, _CANDIDATE, _OUTPUT_GATE = range(4)
_MIN_VARIANCE = 1e-8


@converts("SVDF", weights=True, states=True)
def svdf(op: Operation) -> None:
    """fully_connected, concat, mul and sum; the feature memory persists between runs."""
    options = op.options(SVDFOptions)
    features, times = op.weights(1), op.weights(2)
    count, memory = _matrix(op, times)
    if options.rank < 1 or count % options.rank:
        raise ValueError(f"{count} features cannot be split into groups of {options.rank}")
    newest = op.add("fully_connected", op.input(0), features, None, part="features")
    rows = op.type_of(newest).pixels
    remembered = _remember(op, newest, (rows, count, memory))
    weighted = op.add("mul", remembered, times, part="weighed")
    total = Reduce((2,), keep_dims=False)
    answers = op.add("sum", weighted, attributes=total, part="answers")
    groups = Reshape((rows, count // options.rank, options.rank))
    grouped = op.add("reshape", answers, attributes=groups, part="groups")
    bias = op.optional_weights(3)
    if bias is None:
        op.give("sum", grouped, attributes=total, activation=options.activation)
        return
    summed = op.add("sum", grouped, attributes=total, part="sum")
    op.give("add", summed, bias, activation=options.activation)


def _remember(op: Operation, newest: str, shape: tuple[int, int, int]) -> str:
    """Return the memory with the oldest features replaced by the newest ones."""
    rows, count, memory = shape
    before = op.recall(_MEMORY, rows)
    if op.type_of(before).elements != rows * count * memory:
        raise ValueError(f"its memory {op.type_of(before)} does not hold {list(shape)}")
    now = op.add("reshape", newest, attributes=Reshape((rows, count, 1)), part="newest")
    if memory > 1:
        memory_ = op.add("reshape", before, attributes=Reshape(shape), part="memory")
        recent_slice = Slice((0, 0, 1), (rows, count, memory - 1), (1, 1, 1))
        recent = op.add("slice", memory_, attributes=recent_slice, part="young")
        now = op.add("concat", recent, now, attributes=Concat(2), part="now")
    flat = Reshape(op.type_of(before).shape)
    op.keep(_MEMORY, op.add("reshape", now, attributes=flat, part="flat"))
    return now


def _matrix(op: Operation, value: str) -> tuple[int, int]:
    shape = op.type_of(value).shape
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f"'{value}' is not a matrix")
    return shape[0], shape[1]


@converts("UNIDIRECTIONAL_SEQUENCE_LSTM", weights=True, states=True)
def sequence_lstm(op: Operation) -> None:
    """fully_connected and pointwise ops for each step; the states persist between runs."""
    options = op.options(UnidirectionalSequenceLSTMOptions)
    if options.diagonal_recurrent_tensors:
        raise Unconvertible("diagonal recurrent weights are not supported")
    x = _checked(op, options.activation, 3)
    axis = 0 if options.time_major else 1
    steps = x.shape[axis]
    if steps > MAX_STEPS:
        raise Unconvertible(f"it has {steps} steps; at most {MAX_STEPS} are unrolled")
    cell = _Cell(op, options, op.input(0), x.shape[1 - axis])
    outputs = [cell.step(number, axis) for number in range(steps)]
    cell.leave()
    shape = op.type_of(outputs[0]).shape
    wide = Reshape((*shape[:axis], 1, *shape[axis:]))
    parts = [
        op.add("reshape", value, attributes=wide, part=f"part{number}")
        for number, value in enumerate(outputs)
    ]
    op.give("concat", *parts, attributes=Concat(axis))


def full_lstm(op: Operation) -> None:
    """Convert one step of an LSTM without a sequence."""
    options = op.options(LSTMOptions)
    x = _checked(op, options.activation, 2)
    wide = Reshape((x.shape[0], 1, x.shape[1]))
    sequence = op.add("reshape", op.input(0), attributes=wide, part="sequence")
    cell = _Cell(op, options, sequence, x.shape[0])
    op.give("identity", cell.step(0, 1))
    cell.leave()


def _checked(op: Operation, activation: int, rank: int) -> TensorType:
    """Check the inputs and return the type of the first one."""
    x = op.input_type(0)
    if len(op.inputs) not in (_INPUTS - 4, _INPUTS) or x.rank != rank:
        raise ValueError(f"it has {len(op.inputs)} inputs, the first of them {x}")
    if not 0 <= activation < len(ACTIVATIONS):
        raise Unconvertible(f"fused activation number {activation} is not supported")
    return x


@dataclass
class _Cell:
    """The LSTM cell between two steps: `output` and `cell_state` are those of the last step."""

    op: Operation
    options: UnidirectionalSequenceLSTMOptions | LSTMOptions
    values: str  # inputs of all steps
    rows: int

    def __post_init__(self) -> None:
        op = self.op
        states = (_OUTPUT_STATE, _CELL_STATE)
        self.output, self.cell_state = (op.recall(index, self.rows) for index in states)
        self.gates = [gate for gate in range(4) if op.optional(_FROM_INPUT + gate) is not None]
        if self.gates not in ([0, 1, 2, 3], [1, 2, 3]):
            raise ValueError("weights of a gate are missing")
        self.normed = any(op.optional(_NORMS + gate) is not None for gate in self.gates)
        self.units = _matrix(op, op.weights(_FROM_INPUT + _OUTPUT_GATE))[0]
        weights = self._joined(_FROM_INPUT)
        # Compute the input products of all steps at once; only the recurrent part is sequential.
        self.ahead = op.add("fully_connected", self.values, weights, self._bias(), part="ahead")
        self.recurrent = self._joined(_FROM_STATE)

    def _joined(self, first: int) -> str:
        """Return the matrices of all gates, stacked."""
        parts = [self.op.weights(first + gate) for gate in self.gates]
        return self.op.add("concat", *parts, attributes=Concat(0), part=f"joined{first}")

    def _bias(self) -> str | None:
        """Return the concatenated biases; a cell with layer normalization adds them later."""
        if self.normed:
            return None
        parts = [self.op.weights(_BIASES + gate) for gate in self.gates]
        return self.op.add("concat", *parts, attributes=Concat(0), part="biases")

    def step(self, number: int, axis: int) -> str:
        """Compute one step and return the output of the cell."""
        op, x = self.op, self.op.type_of(self.ahead)
        begin = tuple(number if dimension == axis else 0 for dimension in range(3))
        size = tuple(1 if dimension == axis else length for dimension, length in enumerate(x.shape))
        now = self._add("slice", self.ahead, attributes=Slice(begin, size, (1, 1, 1)))
        flat = Reshape((x.shape[1 - axis], x.shape[2]))
        now = self._add("reshape", now, attributes=flat)
        back = self._add("fully_connected", self.output, self.recurrent, None)
        both = self._add("add", back, now)
        forget_gate = self._gate(both, _FORGET_GATE, self.cell_state)
        candidate = self._gate(both, _CANDIDATE, None)
        input_gate = (
            self._gate(both, _INPUT_GATE, self.cell_state)
            if _INPUT_GATE in self.gates
            else self._coupled_input_gate(forget_gate)
        )
        cell_state = self._add("mul", forget_gate, self.cell_state)
        cell_state = self._add("add", cell_state, self._add("mul", input_gate, candidate))
        self.cell_state = self._clip(cell_state, self.options.cell_clip)
        output_gate = self._gate(both, _OUTPUT_GATE, self.cell_state)
        self.output = self._add("mul", output_gate, self._activate(self.cell_state))
        if op.optional(_PROJECTION) is not None:
            projected = self._add(
                "fully_connected",
                self.output,
                op.weights(_PROJECTION),
                op.optional_weights(_PROJECTION_BIAS),
            )
            self.output = self._clip(projected, self.options.proj_clip)
        return self.output

    def leave(self) -> None:
        """Store the output and the cell state of the last step for the next run."""
        self.op.keep(_OUTPUT_STATE, self.output)
        self.op.keep(_CELL_STATE, self.cell_state)

    def _gate(self, sums: str, gate: int, cell_value: str | None) -> str:
        """Return the value of a gate; with a peephole it depends on the cell state."""
        op, rows = self.op, self.op.type_of(sums).shape[0]
        first = self.gates.index(gate) * self.units
        part = Slice((0, first), (rows, self.units), (1, 1))
        value = self._add("slice", sums, attributes=part)
        peephole = None
        if cell_value is not None:
            order = {_INPUT_GATE: 0, _FORGET_GATE: 1, _OUTPUT_GATE: 2}[gate]
            peephole = op.optional_weights(_PEEPHOLES + order)
        if cell_value is not None and peephole is not None:
            value = self._add("add", value, self._add("mul", cell_value, peephole))
        if self.normed:
            value = self._norm(value, gate)
        return self._activate(value) if gate == _CANDIDATE else self._add("logistic", value)

    def _norm(self, value: str, gate: int) -> str:
        """Return (value - mean) / deviation * weights + bias."""
        last = Reduce((1,), keep_dims=True)
        centred = self._add("sub", value, self._add("mean", value, attributes=last))
        square = self._add("mean", self._add("square", centred), attributes=last)
        spread = self._add("rsqrt", self._add("add", square, self._number(_MIN_VARIANCE)))
        scaled = self._add("mul", self._add("mul", centred, spread), self.op.weights(_NORMS + gate))
        return self._add("add", scaled, self.op.weights(_BIASES + gate))

    def _coupled_input_gate(self, forget_gate: str) -> str:
        """Return the input gate of a cell without one: one minus the forget gate."""
        return self._add("sub", self._number(1.0), forget_gate)

    def _activate(self, value: str) -> str:
        op = ACTIVATIONS[self.options.activation]
        return self._add(op, value) if op else value

    def _clip(self, value: str, limit: float) -> str:
        if limit <= 0:
            return value
        below = self._add("minimum", value, self._number(limit))
        return self._add("maximum", below, self._number(-limit))

    def _number(self, number: float) -> str:
        return self.op.add_constant(number, "number")

    def _add(self, op: str, *inputs: str | None, attributes: object = NONE) -> str:
        return self.op.add(op, *inputs, attributes=attributes, part="step")


@converts("VAR_HANDLE", resources=True)
def var_handle(op: Operation) -> None:
    """nothing; a variable is a state, identified by its name."""
    options = op.options(VarHandleOptions)
    op.builder.handles[op.outputs[0]] = f"variable {options.container}/{options.shared_name}"
    op.builder.types[op.outputs[0]] = TensorType(DType.RESOURCE, ())


@converts("READ_VARIABLE", resources=True)
def read_variable(op: Operation) -> None:
    """the current value of the state."""
    type = op.declared[0].with_dtype(DType.F32) if op.clamped else op.declared[0]
    op.give("identity", op.builder.state(_state(op), type))


@converts("ASSIGN_VARIABLE", resources=True)
def assign_variable(op: Operation) -> None:
    """sets the state."""
    builder, value = op.builder, op.input(1)
    if not builder.starting:
        builder.state(_state(op), op.type_of(value))
        builder.states[_state(op)] = op.add("identity", value, part="kept")
    elif value in builder.constants:
        builder.starts[_state(op)] = builder.constants[value]
    else:
        raise Unconvertible(f"the initial value '{value}' of a variable is computed at run time")


def _state(op: Operation) -> str:
    handle = op.input(0)
    if handle not in op.builder.handles:
        raise Unconvertible(f"'{handle}' is not a variable")
    return op.builder.handles[handle]
