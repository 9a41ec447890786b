"""Operators that remember: a sequence through an LSTM, and SVDF, made of other ops step by step.

Their states go on from one run to the next, until the caller has them forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass

from fourfold.formats.refusal import Unconvertible
from fourfold.formats.tflite.operation import Operation
from fourfold.formats.tflite.options import (
    LSTMOptions,
    SVDFOptions,
    UnidirectionalSequenceLSTMOptions,
)
from fourfold.formats.tflite.rule import converts
from fourfold.formats.tflite.schema import ACTIVATIONS
from fourfold.graph import NONE
from fourfold.op.rules import Reduce
from fourfold.ops.concat import Concat
from fourfold.ops.reshape import Reshape
from fourfold.ops.slice import Slice
from fourfold.types import TensorType

MOST_STEPS = 64
_INPUTS, _MEMORY = 24, 4
_FROM_INPUT, _FROM_STATE, _PEEPHOLES, _BIASES = 1, 5, 9, 12
_PROJECTION, _PROJECTION_BIAS, _OUTPUT_STATE, _CELL_STATE, _NORMS = 16, 17, 18, 19, 20
_TAKE, _KEEP, _LEARN, _SHOW = range(4)
_LEAST_VARIANCE = 1e-8


@converts("SVDF", weights=True, states=True)
def svdf(op: Operation) -> None:
    """fully_connected, concat, mul and sum; the memory of features outlives a run."""
    options = op.options(SVDFOptions)
    features, times = op.weights(1), op.weights(2)
    count, memory = _matrix(op, times)
    if options.rank < 1 or count % options.rank:
        raise ValueError(f"{count} features are not in groups of {options.rank}")
    seen = op.add("fully_connected", op.input(0), features, None, part="features")
    rows = op.type_of(seen).pixels
    remembered = _remember(op, seen, (rows, count, memory))
    weighed = op.add("mul", remembered, times, part="weighed")
    total = Reduce((2,), keep_dims=False)
    answers = op.add("sum", weighed, attributes=total, part="answers")
    groups = Reshape((rows, count // options.rank, options.rank))
    grouped = op.add("reshape", answers, attributes=groups, part="groups")
    bias = op.optional_weights(3)
    if bias is None:
        op.give("sum", grouped, attributes=total, activation=options.activation)
        return
    summed = op.add("sum", grouped, attributes=total, part="sum")
    op.give("add", summed, bias, activation=options.activation)


def _remember(op: Operation, seen: str, shape: tuple[int, int, int]) -> str:
    """The memory with the newest features in place of the oldest ones."""
    rows, count, memory = shape
    before = op.recall(_MEMORY, rows)
    if op.type_of(before).elements != rows * count * memory:
        raise ValueError(f"its memory {op.type_of(before)} does not hold {list(shape)}")
    now = op.add("reshape", seen, attributes=Reshape((rows, count, 1)), part="newest")
    if memory > 1:
        whole = op.add("reshape", before, attributes=Reshape(shape), part="memory")
        young = Slice((0, 0, 1), (rows, count, memory - 1), (1, 1, 1))
        young_part = op.add("slice", whole, attributes=young, part="young")
        now = op.add("concat", young_part, now, attributes=Concat(2), part="now")
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
    """fully_connected and pointwise ops for each step; states outlive a run."""
    options = op.options(UnidirectionalSequenceLSTMOptions)
    if options.diagonal_recurrent_tensors:
        raise Unconvertible("its recurrent weights are diagonals")
    x = _checked(op, options.activation, 3)
    axis = 0 if options.time_major else 1
    steps = x.shape[axis]
    if steps > MOST_STEPS:
        raise Unconvertible(f"it has {steps} steps, and at most {MOST_STEPS} are written out")
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
    """One step of such a cell, for an op that takes no sequence."""
    options = op.options(LSTMOptions)
    x = _checked(op, options.activation, 2)
    wide = Reshape((x.shape[0], 1, x.shape[1]))
    sequence = op.add("reshape", op.input(0), attributes=wide, part="sequence")
    cell = _Cell(op, options, sequence, x.shape[0])
    op.give("identity", cell.step(0, 1))
    cell.leave()


def _checked(op: Operation, activation: int, rank: int) -> TensorType:
    """The type of the first input, after a look at the others."""
    x = op.input_type(0)
    if len(op.inputs) not in (_INPUTS - 4, _INPUTS) or x.rank != rank:
        raise ValueError(f"it has {len(op.inputs)} inputs, the first of them {x}")
    if not 0 <= activation < len(ACTIVATIONS):
        raise Unconvertible(f"fused activation number {activation} is not supported")
    return x


@dataclass
class _Cell:
    """The cell between two steps: what it showed last, and what it keeps."""

    op: Operation
    options: UnidirectionalSequenceLSTMOptions | LSTMOptions
    values: str  # of all steps
    rows: int

    def __post_init__(self) -> None:
        op = self.op
        states = (_OUTPUT_STATE, _CELL_STATE)
        self.shown, self.kept = (op.recall(index, self.rows) for index in states)
        self.gates = [gate for gate in range(4) if op.optional(_FROM_INPUT + gate) is not None]
        if self.gates not in ([0, 1, 2, 3], [1, 2, 3]):
            raise ValueError("weights of a gate are missing")
        self.normed = any(op.optional(_NORMS + gate) is not None for gate in self.gates)
        self.units = _matrix(op, op.weights(_FROM_INPUT + _SHOW))[0]
        whole = self._joined(_FROM_INPUT)
        # All steps at once: only what depends on the state has to wait.
        self.ahead = op.add("fully_connected", self.values, whole, self._bias(), part="ahead")
        self.recurrent = self._joined(_FROM_STATE)

    def _joined(self, first: int) -> str:
        """The matrices of all gates, one below the other."""
        parts = [self.op.weights(first + gate) for gate in self.gates]
        return self.op.add("concat", *parts, attributes=Concat(0), part=f"joined{first}")

    def _bias(self) -> str | None:
        """The biases in a row; a cell that normalises adds them later."""
        if self.normed:
            return None
        parts = [self.op.weights(_BIASES + gate) for gate in self.gates]
        return self.op.add("concat", *parts, attributes=Concat(0), part="biases")

    def step(self, number: int, axis: int) -> str:
        """One step: the value that the cell shows."""
        op, x = self.op, self.op.type_of(self.ahead)
        begin = tuple(number if place == axis else 0 for place in range(3))
        size = tuple(1 if place == axis else length for place, length in enumerate(x.shape))
        now = self._add("slice", self.ahead, attributes=Slice(begin, size, (1, 1, 1)))
        flat = Reshape((x.shape[1 - axis], x.shape[2]))
        now = self._add("reshape", now, attributes=flat)
        back = self._add("fully_connected", self.shown, self.recurrent, None)
        both = self._add("add", back, now)
        keep = self._gate(both, _KEEP, self.kept)
        learn = self._gate(both, _LEARN, None)
        take = self._gate(both, _TAKE, self.kept) if _TAKE in self.gates else self._rest(keep)
        kept = self._add("mul", keep, self.kept)
        kept = self._add("add", kept, self._add("mul", take, learn))
        self.kept = self._clip(kept, self.options.cell_clip)
        show = self._gate(both, _SHOW, self.kept)
        self.shown = self._add("mul", show, self._activate(self.kept))
        if op.optional(_PROJECTION) is not None:
            inputs = (op.weights(_PROJECTION), op.optional_weights(_PROJECTION_BIAS))
            projected = self._add("fully_connected", self.shown, *inputs)
            self.shown = self._clip(projected, self.options.proj_clip)
        return self.shown

    def leave(self) -> None:
        """Keeps what the last step showed and kept, for the next run."""
        self.op.keep(_OUTPUT_STATE, self.shown)
        self.op.keep(_CELL_STATE, self.kept)

    def _gate(self, sums: str, gate: int, seen: str | None) -> str:
        """How far a gate opens; with a peephole it sees the cell."""
        op, rows = self.op, self.op.type_of(sums).shape[0]
        first = self.gates.index(gate) * self.units
        part = Slice((0, first), (rows, self.units), (1, 1))
        value = self._add("slice", sums, attributes=part)
        peephole = None
        if seen is not None:
            order = {_TAKE: 0, _KEEP: 1, _SHOW: 2}[gate]
            peephole = op.optional_weights(_PEEPHOLES + order)
        if seen is not None and peephole is not None:
            value = self._add("add", value, self._add("mul", seen, peephole))
        if self.normed:
            value = self._norm(value, gate)
        return self._activate(value) if gate == _LEARN else self._add("logistic", value)

    def _norm(self, value: str, gate: int) -> str:
        """(value - mean) / deviation * weights + bias."""
        last = Reduce((1,), keep_dims=True)
        centred = self._add("sub", value, self._add("mean", value, attributes=last))
        square = self._add("mean", self._add("square", centred), attributes=last)
        spread = self._add("rsqrt", self._add("add", square, self._number(_LEAST_VARIANCE)))
        scaled = self._add("mul", self._add("mul", centred, spread), self.op.weights(_NORMS + gate))
        return self._add("add", scaled, self.op.weights(_BIASES + gate))

    def _rest(self, keep: str) -> str:
        """A cell without an input gate takes what it does not keep."""
        return self._add("sub", self._number(1.0), keep)

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
