"""Matrix multiplication operators: fully connected layers and the basic LSTM cell."""

from __future__ import annotations

from fourfold.formats.refusal import Unconvertible
from fourfold.formats.tflite.convert.recurrent import full_lstm
from fourfold.formats.tflite.operation import Operation
from fourfold.formats.tflite.options import FullyConnectedOptions, LSTMOptions
from fourfold.formats.tflite.rule import converts
from fourfold.formats.tflite.schema import LSTM_BASIC
from fourfold.ops.concat import Concat
from fourfold.ops.reshape import Reshape
from fourfold.ops.slice import Slice
from fourfold.types import Shape


@converts("FULLY_CONNECTED", weights=True)
def fully_connected(op: Operation) -> None:
    """fully_connected, after a reshape to rows if the operator flattens its input."""
    options, weights = op.options(FullyConnectedOptions), op.weights(1)
    if options.weights_format:
        raise Unconvertible("its weights are shuffled for a specific CPU")
    x, kernel = op.input_type(0), op.type_of(weights)
    if kernel.rank != 2:
        raise ValueError(f"weights {kernel} are not a matrix")
    columns, value = kernel.shape[1], op.weights(0)
    if not options.keep_num_dims and (x.rank != 2 or x.shape[-1] != columns):
        if columns < 1 or x.elements % columns:
            raise ValueError(f"{x} cannot be reshaped to rows of {columns}")
        rows = Reshape((x.elements // columns, columns))
        value = op.add("reshape", value, attributes=rows, part="rows")
    inputs = (value, weights, op.optional_weights(2))
    op.give("fully_connected", *inputs, activation=options.activation)


@converts("LSTM", weights=True, states=True)
def lstm(op: Operation) -> None:
    """concat, fully_connected, slices and pointwise ops; the states persist between runs."""
    if op.options(LSTMOptions).kernel_type != LSTM_BASIC:
        full_lstm(op)
        return
    if len(op.inputs) != 5:
        raise ValueError(f"it has {len(op.inputs)} inputs, not 5")
    if len(op.outputs) != 4:
        raise ValueError(f"it has {len(op.outputs)} outputs, not 4")
    x, rows = op.input(0), op.input_type(0).shape[:1]
    before, state = (op.recall(index, *rows) for index in (1, 4))
    shape = op.type_of(state).shape
    op.give("concat", x, before, attributes=Concat(max(op.input_type(0).rank - 1, 0)), output=2)
    op.give("fully_connected", op.outputs[2], op.weights(2), op.weights(3), output=3)
    input_gate, candidate, forget_gate, output_gate = (
        _gate(op, shape, index) for index in range(4)
    )
    learned = op.add("mul", input_gate, candidate, part="learned")
    remembered = op.add("mul", forget_gate, state, part="kept")
    op.give("add", learned, remembered, output=1)
    op.give("mul", output_gate, op.add("tanh", op.outputs[1], part="state"))
    op.keep(1, op.outputs[0])
    op.keep(4, op.outputs[1])


def _gate(op: Operation, shape: Shape, index: int) -> str:
    """Return one quarter of the product: input, candidate, forget or output gate."""
    if len(shape) != 2:
        raise ValueError(f"its state has rank {len(shape)}, not 2")
    part = Slice((0, index * shape[1]), shape, (1, 1))
    value = op.add("slice", op.outputs[3], attributes=part, part=f"gate{index}")
    return op.add("tanh" if index == 1 else "logistic", value, part=f"open{index}")
