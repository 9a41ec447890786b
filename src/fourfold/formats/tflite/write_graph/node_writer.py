"""NodeWriter: writes one node as operators; and the rules that write ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

import numpy as np

from fourfold.formats.rule_table import Unconvertible
from fourfold.formats.tflite.write_graph.draft import Draft, Tensor
from fourfold.formats.tflite.write_graph.values import Values
from fourfold.formats.writable import StoredAs
from fourfold.graph import Node
from fourfold.types import DType, Quantization, Shape, TensorType

T = TypeVar("T")
Inputs = Sequence[Tensor | None]


class NeedsRealNumbers(Exception):
    """Raised by a rule, before it writes anything, if its node needs the float kernel."""


@dataclass(frozen=True)
class NodeWriter:
    """The argument of a write rule.

    `inputs` and `outputs` are the quantizations in which values are read and written; None for the
    type in the graph. `activation` is the activation to fuse. `products` is the quantization of
    integer sums that the input with index `bias` is added to. With `open_batch`, the size of first
    axes is dynamic.
    """

    node: Node
    values: Values
    inputs: tuple[StoredAs | None, ...]
    outputs: tuple[StoredAs | None, ...]
    activation: int = 0
    bias: int | None = None
    products: StoredAs | None = None
    open_batch: bool = False

    @property
    def draft(self) -> Draft:
        return self.values.draft

    def attributes(self, kind: type[T]) -> T:
        assert isinstance(self.node.attributes, kind)
        return self.node.attributes

    def has(self, index: int) -> bool:
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def name(self, index: int) -> str:
        name = self.node.inputs[index]
        assert name is not None
        return name

    def type(self, index: int) -> TensorType:
        """Return the type of an input in the graph."""
        return self.values.graph.types[self.name(index)]

    def result_type(self, index: int = 0) -> TensorType:
        return self.values.graph.types[self.node.outputs[index]]

    def array(self, index: int) -> np.ndarray | None:
        """Return a constant input as in the graph; None if it is not constant."""
        return self.values.graph.constants.get(self.name(index))

    def input(self, index: int) -> Tensor:
        if index == self.bias and self.products is not None:
            return self.values.stored_as(self.name(index), self.products)
        form = self.inputs[index]
        if form is None:
            return self.values.plain(self.name(index))
        return self.values.stored_as(self.name(index), form)

    def optional(self, index: int) -> Tensor | None:
        return self.input(index) if self.has(index) else None

    def all_inputs(self) -> list[Tensor]:
        return [self.input(index) for index in range(len(self.node.inputs)) if self.has(index)]

    def constant(self, array: np.ndarray, part: str) -> Tensor:
        return self.draft.constant(f"{self.node.outputs[0]}/{part}", array)

    def integers(self, numbers: Sequence[object], part: str) -> Tensor:
        return self.constant(np.array(numbers, np.int32), part)

    def zeros(self, count: int) -> Tensor:
        """Return a zero bias for a layer that has none; many runtimes require one."""
        if self.products is None:
            return self.constant(np.zeros(count, np.float32), "bias")
        assert self.products.quantization is not None
        dtype, name = self.products.dtype, f"{self.node.outputs[0]}/bias"
        array = np.zeros(count, dtype.numpy)
        return self.draft.stored_constant(name, array, dtype, self.products.quantization)

    def number(self, value: float, like: Tensor, part: str) -> Tensor:
        """Return a scalar with the type and quantization of another tensor."""
        if like.quantization is None:
            return self.constant(np.array(value, np.float64).astype(like.dtype.numpy), part)
        limits, (scale,), (zero,) = (
            np.iinfo(like.dtype.numpy),
            like.quantization.scale,
            like.quantization.zero_point,
        )
        step = zero if value == 0 else np.clip(value / scale + zero, limits.min, limits.max)
        array = np.array(np.rint(step), like.dtype.numpy)
        name = f"{self.node.outputs[0]}/{part}"
        return self.draft.stored_constant(name, array, like.dtype, like.quantization)

    def step(
        self,
        op: str,
        inputs: Inputs,
        shape: Shape,
        dtype: DType | None = None,
        **fields: object,
    ) -> Tensor:
        """Add an operator for an intermediate result, with the first input's type by default."""
        first = inputs[0]
        assert first is not None
        result = self.temporary(op, TensorType(dtype or first.dtype, shape), first.quantization)
        self.draft.operator(op, inputs, [result], **fields)
        return result

    def temporary(
        self, op: str, type: TensorType, quantization: Quantization | None = None
    ) -> Tensor:
        quantization_ = None if type.dtype.is_float else quantization
        return self.draft.tensor(f"{self.node.outputs[0]}/{op.lower()}", type, quantization_)

    def give(self, op: str, inputs: Inputs, output: int = 0, **fields: object) -> None:
        """Add the operator that writes an output of the node."""
        tensor = self.output_tensor(output)
        self.draft.operator(op, inputs, [tensor], **fields)
        self.values.settle(self.node.outputs[output], tensor)

    def output_tensor(self, output: int = 0) -> Tensor:
        """Return the tensor of an output for an operator to write; `settle` it afterwards."""
        value, form = self.node.outputs[output], self.outputs[output]
        return self.values.result(value, form, own=form == self.values.form(value))

    def give_tensor(self, tensor: Tensor, output: int = 0) -> None:
        """Use an existing tensor as an output of the node."""
        self.values.settle(self.node.outputs[output], tensor)

    def reshaped(self, tensor: Tensor, shape: Shape) -> Tensor:
        if tensor.shape == shape:
            return tensor
        return self.step("RESHAPE", [tensor, self.shape(shape)], shape, new_shape=shape)

    def shape(self, shape: Shape) -> Tensor:
        return self.integers(shape, "shape")

    def transposed(self, tensor: Tensor, order: Sequence[int]) -> Tensor:
        shape = tuple(tensor.shape[axis] for axis in order)
        return self.step("TRANSPOSE", [tensor, self.integers(order, "order")], shape)

    def refuse(self, reason: str) -> Unconvertible:
        return Unconvertible(reason)


Write = Callable[[NodeWriter], None]
Types = frozenset[DType]

NARROW: Types = frozenset({DType.I8, DType.U8})
SMALL: Types = NARROW | {DType.I16}
BYTES: Types = frozenset({DType.I8})
NIBBLES: Types = BYTES | {DType.I4}


class Grids(Enum):
    """How LiteRT's kernels constrain the quantization of inputs and outputs."""

    NONE = "no integer kernel"
    ANY = "any quantization for each value"
    SAME = "one quantization for all values"
    FIXED = "a fixed output quantization"


@dataclass(frozen=True)
class WriteRule:
    """The rule for one op.

    `integers` are the quantized types that LiteRT's kernels support, with the constraint `grids`.
    `weights` and `bias` are indices of inputs. `hybrid` are weight types supported with float
    values. `fuses` is True if a following activation can be an option of the operator.
    """

    write: Write
    grids: Grids = Grids.NONE
    integers: Types = frozenset()
    weights: int | None = None
    bias: int | None = None
    hybrid: Types = frozenset()
    fuses: bool = False


RULES: dict[str, WriteRule] = {}


def writes(
    *ops: str,
    grids: Grids = Grids.NONE,
    integers: Types = SMALL,
    weights: int | None = None,
    bias: int | None = None,
    hybrid: Types = frozenset(),
    fuses: bool = False,
) -> Callable[[Write], Write]:
    """Register a function for ops; its docstring describes what it writes."""

    def register(write: Write) -> Write:
        for op in ops:
            RULES[op] = WriteRule(write, grids, integers, weights, bias, hybrid, fuses)
        return write

    return register
