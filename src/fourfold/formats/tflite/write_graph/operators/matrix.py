"""Matrix products."""

from __future__ import annotations

from fourfold.formats.tflite.write_graph.node_writer import (
    BYTES,
    NIBBLES,
    Grids,
    NodeWriter,
    writes,
)
from fourfold.ops.batch_matmul import BatchMatmul
from fourfold.types import DType


def _is_hybrid(to: NodeWriter, weights: int) -> bool:
    """Return True for integer weights with float values, which LiteRT quantizes at run time."""
    return to.inputs[weights] is not None and to.inputs[0] is None


@writes("fully_connected", grids=Grids.ANY, weights=1, bias=2, hybrid=NIBBLES, fuses=True)
def fully_connected(to: NodeWriter) -> None:
    """FULLY_CONNECTED, keeping all axes but the last."""
    x, weights = to.input(0), to.input(1)
    if len(x.shape) < 2:
        x = to.reshaped(x, (1, *x.shape))
    fields = {
        "activation": to.activation,
        "keep_num_dims": len(x.shape) > 2,
        "asymmetric_quantize_inputs": _is_hybrid(to, 1),
    }
    inputs = [x, weights, to.optional(2) or to.zeros(weights.shape[0])]
    if len(to.type(0).shape) >= 2:
        to.give("FULLY_CONNECTED", inputs, **fields)
        return
    form = to.outputs[0]
    rows = to.result_type().with_shape(1, weights.shape[0])
    stored_type = rows if form is None else rows.with_dtype(form.dtype)
    product = to.temporary(
        "FULLY_CONNECTED", stored_type, None if form is None else form.quantization
    )
    to.draft.operator("FULLY_CONNECTED", inputs, [product], **fields)
    to.give("RESHAPE", [product, to.shape(rows.shape[1:])], new_shape=rows.shape[1:])


@writes(
    "batch_matmul",
    grids=Grids.ANY,
    integers=frozenset({DType.I8, DType.I16}),
    weights=1,
    hybrid=BYTES,
)
def batch_matmul(to: NodeWriter) -> None:
    """BATCH_MATMUL."""
    to.give(
        "BATCH_MATMUL",
        to.all_inputs(),
        adj_y=to.attributes(BatchMatmul).transposed,
        asymmetric_quantize_inputs=_is_hybrid(to, 1),
    )
