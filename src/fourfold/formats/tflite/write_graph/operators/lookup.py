"""Gather, scatter and reverse ops."""

from __future__ import annotations

from fourfold.formats.tflite.schema import TYPES
from fourfold.formats.tflite.write_graph.node_writer import NodeWriter
from fourfold.formats.tflite.write_graph.rule import Grids, writes
from fourfold.ops.gather import Gather
from fourfold.ops.reverse_sequence import ReverseSequence
from fourfold.ops.scatter_nd import ScatterNd
from fourfold.types import DType


@writes("gather", grids=Grids.SAME)
def gather(to: NodeWriter) -> None:
    """GATHER."""
    a = to.attributes(Gather)
    to.give("GATHER", to.all_inputs(), axis=a.axis, batch_dims=a.batch_dims)


@writes("gather_nd", grids=Grids.SAME)
def gather_nd(to: NodeWriter) -> None:
    """GATHER_ND."""
    to.give("GATHER_ND", to.all_inputs())


@writes("scatter_nd")
def scatter_nd(to: NodeWriter) -> None:
    """SCATTER_ND."""
    indices, updates = to.input(0), to.input(1)
    # The operator requires a list of index rows, as i32.
    if len(indices.shape) == 1:
        indices = to.reshaped(indices, (1, *indices.shape))
        updates = to.reshaped(updates, (1, *updates.shape))
    if indices.dtype is not DType.I32:
        kinds = (TYPES.index(indices.dtype), TYPES.index(DType.I32))
        fields = {"in_data_type": kinds[0], "out_data_type": kinds[1]}
        indices = to.step("CAST", [indices], indices.shape, DType.I32, **fields)
    shape = to.integers(to.attributes(ScatterNd).shape, "shape")
    to.give("SCATTER_ND", [indices, updates, shape])


@writes("reverse_sequence")
def reverse_sequence(to: NodeWriter) -> None:
    """REVERSE_SEQUENCE."""
    a = to.attributes(ReverseSequence)
    to.give("REVERSE_SEQUENCE", to.all_inputs(), seq_dim=a.axis, batch_dim=a.batch_axis)
