"""Operators that LiteRT runs: the values they read, and whether their result sizes are known."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from fourfold.formats.builder import GraphBuilder
from fourfold.formats.tflite.options import (
    CallOnceOptions,
    CompositeOptions,
    IfOptions,
    WhileOptions,
)
from fourfold.formats.tflite.records import (
    FileRecord,
    OperatorRecord,
    SubgraphRecord,
    TensorRecord,
)
from fourfold.formats.tflite.tensors import declared, quantization_of
from fourfold.ops.foreign import Foreign
from fourfold.types import DType, TensorType

# Operators whose result sizes depend on values that they read.
DATA_DEPENDENT = {"WHERE", "UNIQUE", "HASHTABLE_FIND", "SEGMENT_SUM", "BROADCAST_ARGS"}
# Operators whose result sizes depend on inputs other than the first.
SIZED_BY_INPUTS = {
    *("RESHAPE", "FILL", "TILE", "BROADCAST_TO", "EXPAND_DIMS", "RANGE", "ONE_HOT", "TOPK_V2"),
    *("PAD", "PADV2", "MIRROR_PAD", "SLICE", "STRIDED_SLICE", "SPLIT_V", "SPARSE_TO_DENSE"),
    *("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "TRANSPOSE_CONV", "SCATTER_ND", "RFFT2D"),
    *("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL"),
    *("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND"),
}
CALLING = {"IF", "WHILE", "CALL", "CALL_ONCE", "STABLEHLO_COMPOSITE", "STABLEHLO_WHILE"}


def called_graphs(record: OperatorRecord) -> tuple[int, ...]:
    """Return the indices of the graphs that an operator calls."""
    options = record.options
    if isinstance(options, IfOptions):
        return options.then_subgraph, options.else_subgraph
    if isinstance(options, WhileOptions):
        return options.condition_subgraph, options.body_subgraph
    if isinstance(options, CallOnceOptions):
        return (options.init_subgraph,)
    return (options.decomposition,) if isinstance(options, CompositeOptions) else ()


def unit_name(record: OperatorRecord, number: int, names: tuple[str, ...]) -> str:
    """Return the name of an operator's nodes: its first result, or its number if it has none."""
    return names[record.outputs[0]] if record.outputs else f"{record.title} #{number}"


@dataclass(frozen=True)
class Leftover:
    """An operator that no rule converts, in its graph."""

    file: FileRecord
    graph: SubgraphRecord
    names: tuple[str, ...]
    number: int
    reason: str
    unsized: Container[str] = ()  # values whose sizes are known only at run time

    @property
    def record(self) -> OperatorRecord:
        return self.graph.operators[self.number]

    def inputs(self, builder: GraphBuilder) -> tuple[str | None, ...]:
        """Return the values it reads, without constants of the file."""
        return tuple(self._input(index, builder) for index in self.record.inputs)

    def attributes(self, builder: GraphBuilder) -> Foreign:
        """Return the attributes of its placeholder node."""
        types = tuple(self._type(index) for index in self.record.outputs)
        read = tuple(declared(self._tensor(i)) for i in self.record.inputs if i != -1)
        sizes = self._sizes_change(builder) or any(
            name in self.unsized for name in self.inputs(builder) if name
        )
        title, numbers = self.record.title, (self.number,)
        return Foreign("tflite", numbers, title, self.reason, types, read, sizes)

    def _input(self, index: int, builder: GraphBuilder) -> str | None:
        if index == -1 or self.graph.tensors[index].variable:
            return None
        stored = self.file.buffers[self.graph.tensors[index].buffer].size > 0
        return None if stored or self.names[index] not in builder.types else self.names[index]

    def _type(self, index: int) -> TensorType:
        """Return the file's type; float for quantized values with a single scale."""
        tensor = self._tensor(index)
        quantization = quantization_of(tensor) if tensor.quantized else None
        plain = quantization is None or quantization.axis is not None
        return declared(tensor) if plain else declared(tensor).with_dtype(DType.F32)

    def _sizes_change(self, builder: GraphBuilder) -> bool:
        """Return True if the sizes of the results may differ from those in the file."""
        op, read = self.record.op, [index for index in self.record.inputs if index != -1]
        read_types = [(index, builder.types.get(self.names[index])) for index in read]
        if any(type and type.shape != self._tensor(index).shape for index, type in read_types):
            return True
        if op in CALLING:
            return any(-1 in (self._tensor(index).signature or ()) for index in self.record.outputs)
        computed = [
            i for i in read[1:] if self._input(i, builder) not in {None, *builder.constants}
        ]
        return op in DATA_DEPENDENT or (op in SIZED_BY_INPUTS and bool(computed))

    def _tensor(self, index: int) -> TensorRecord:
        return self.graph.tensors[index]
