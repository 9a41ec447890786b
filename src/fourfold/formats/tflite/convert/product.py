"""Matrix products and 3-D convolutions."""

from __future__ import annotations

from fourfold.formats.tflite.operation import Operation
from fourfold.formats.tflite.options import BatchMatMulOptions, Conv3DOptions
from fourfold.formats.tflite.rule import converts
from fourfold.formats.tflite.schema import SAME, VALID
from fourfold.op.window import Pair, same
from fourfold.ops.batch_matmul import BatchMatmul
from fourfold.ops.conv3d import Conv3d
from fourfold.ops.reshape import Reshape
from fourfold.ops.transpose import Transpose

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
    inputs = (op.input(0), turned, op.optional_weights(2))
    op.give("conv3d", *inputs, attributes=attributes, activation=options.activation)
