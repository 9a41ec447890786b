"""Matrix products, 3-D convolutions and the basic LSTM cell."""

from __future__ import annotations

from fourfold.formats.rule_table import Unconvertible
from fourfold.formats.tflite.convert.recurrent import full_lstm
from fourfold.formats.tflite.operation import Operation, converts
from fourfold.formats.tflite.options import (
    BatchMatMulOptions,
    Conv3DOptions,
    FullyConnectedOptions,
    LSTMOptions,
)
from fourfold.formats.tflite.schema import LSTM_BASIC, SAME, VALID
from fourfold.ops.base.window import Pair, same
from fourfold.ops.batch_matmul import BatchMatmul
from fourfold.ops.concat import Concat
from fourfold.ops.conv3d import Conv3d
from fourfold.ops.reshape import Reshape
from fourfold.ops.slice import Slice
from fourfold.ops.transpose import Transpose
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
    op.give(
        "fully_connected", value, weights, op.optional_weights(2), activation=options.activation
    )


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


_VOLUME_RANK = 5


@converts("BATCH_MATMUL", weights=True)
def batch_matmul(op: Operation) -> None:
    """batch_matmul, or fully_connected if the second input is one constant matrix."""
    options = op.options(BatchMatMulOptions)
    left, right = op.weights(0), op.weights(1)
    if min(op.type_of(left).rank, op.type_of(right).rank) < 2:
        raise ValueError("its inputs are not both matrices")
    if options.adj_x:
        left = _turned(op, left, "left")
    b = op.type_of(right)
    single = b.pixels == b.shape[-2] and b.rank <= op.type_of(left).rank
    if right not in op.builder.constants or not single:
        op.give("batch_matmul", left, right, attributes=BatchMatmul(options.adj_y))
        return
    if b.rank > 2:
        right = op.add("reshape", right, attributes=Reshape(b.shape[-2:]), part="matrix")
    if not options.adj_y:
        right = _turned(op, right, "right")
    op.give("fully_connected", left, right, None)


def _turned(op: Operation, value: str, part: str) -> str:
    """Return the value with its last two axes swapped."""
    rank = op.type_of(value).rank
    permutation = (*range(rank - 2), rank - 1, rank - 2)
    return op.add("transpose", value, attributes=Transpose(permutation), part=part)


@converts("CONV_3D", weights=True)
def conv_3d(op: Operation) -> None:
    """conv3d, with the output channels of its weights first."""
    options, weights = op.options(Conv3DOptions), op.weights(1)
    x, filter = op.input_type(0).shape, op.type_of(weights).shape
    if len(x) != _VOLUME_RANK or len(filter) != _VOLUME_RANK:
        raise ValueError("its input or its filter does not have rank 5")
    stride = (options.stride_d, options.stride_h, options.stride_w)
    dilation = (options.dilation_d, options.dilation_h, options.dilation_w)
    if options.padding not in (SAME, VALID) or min(*stride, *dilation) < 1:
        raise ValueError("its padding, stride or dilation is not valid")
    pads: list[Pair] = [
        same(*sizes) if options.padding == SAME else (0, 0)
        for sizes in zip(x[1:4], filter[:3], stride, dilation, strict=True)
    ]
    attributes = Conv3d(stride, dilation, (pads[0], pads[1], pads[2]))
    order = Transpose((4, 0, 1, 2, 3))
    turned = op.add("transpose", weights, attributes=order, part="weights")
    op.give(
        "conv3d",
        op.input(0),
        turned,
        op.optional_weights(2),
        attributes=attributes,
        activation=options.activation,
    )
