"""Operation: one operator during conversion, and the rules that convert operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from fourfold.formats.batch import OwnTypes, axis_of_batch
from fourfold.formats.builder import GraphBuilder
from fourfold.formats.operator_nodes import PositionalOperator
from fourfold.formats.rule_table import Unconvertible
from fourfold.formats.tflite.records import OperatorRecord
from fourfold.formats.tflite.schema import ACTIVATIONS, CLAMPING
from fourfold.graph import NONE
from fourfold.types import DType, Shape, TensorType, dequantize


@dataclass
class TFLiteBuilder(GraphBuilder):
    """A GraphBuilder with TFLite's variables and quantized constants."""

    reals: dict[str, str] = field(default_factory=dict)  # constants and their float32 form
    signed: dict[str, str] = field(default_factory=dict)  # constants and their bytes as int8
    # Constants adapted to other shapes.
    changed: dict[str, np.ndarray] = field(default_factory=dict)
    variables: dict[str, TensorType] = field(default_factory=dict)  # states of the file
    handles: dict[str, str] = field(default_factory=dict)  # values that refer to a state
    starting: bool = False  # assignments set initial values of states

    def changed_constants(self) -> Mapping[str, np.ndarray]:
        """Return constants of the file that must change for the caller's shapes."""
        return {
            name: array
            for name, array in self.changed.items()
            if not np.array_equal(array, self.constants[name])
        }

    def signed_bytes(self, name: str) -> str:
        """Return a constant's bytes as int8 with a zero point of zero, whatever the file has."""
        if name not in self.signed:
            stored = self.quantization[name]
            signed = self.constant(self.fresh(f"{name}/signed"), self.constants[name].view(np.int8))
            self.quantization[signed] = replace(stored, zero_point=(0,) * len(stored.scale))
            self.signed[name] = signed
        return self.signed[name]

    def real(self, name: str) -> str:
        """Return a constant as float32: dequantized, or widened from float16."""
        if name not in self.reals:
            stored, dtype = self.constants[name], self.types[name].dtype
            if not (dtype.is_float or dtype.is_integer):
                raise Unconvertible(
                    f"'{name}' holds {dtype.value} values, which cannot become floats"
                )
            if not self.budget.take(self.types[name].with_dtype(DType.F32), stored.nbytes):
                raise Unconvertible(f"'{name}' is too large to dequantize")
            quantization = self.quantization.get(name)
            real = self.constant(self.fresh(f"{name}/float"), dequantize(stored, quantization))
            self.reals[name] = real
            if quantization is not None:
                self.quantization[real] = quantization
        return self.reals[name]


T = TypeVar("T")
# With float values, these operators read u8 weights as int8 without a zero point: the first
# converters wrote them so before there was an i8 type, and LiteRT still accepts them.
_SIGNED_WEIGHTS = frozenset(
    {
        *("CONV_2D", "EMBEDDING_LOOKUP", "FULLY_CONNECTED"),
        *("LSTM", "SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM"),
    }
)


@dataclass(frozen=True)
class Operation(PositionalOperator):
    """The argument of a convert function; `declared` are the output types in the file."""

    builder: TFLiteBuilder
    outputs: tuple[str, ...]
    record: OperatorRecord
    declared: tuple[TensorType, ...]
    # The quantization range of the output already applies the fused activation.
    clamped: bool = False
    read: tuple[TensorType, ...] = ()  # input types in the file

    def weights(self, index: int) -> str:
        """Return an input as float; quantized or float16 constants are widened."""
        name = self.input(index)
        type = self.builder.types[name]
        quantized = name in self.builder.quantization and type.dtype is not DType.F32
        narrow = quantized or type.dtype is DType.F16
        if not narrow or name not in self.builder.constants:
            return name
        if quantized and type.dtype is DType.U8 and self.record.op in _SIGNED_WEIGHTS:
            name = self.builder.signed_bytes(name)
        return self.builder.real(name)

    def optional_weights(self, index: int) -> str | None:
        return None if self.optional(index) is None else self.weights(index)

    def recall(self, index: int, rows: int | None = None) -> str:
        """Return an input that may be a state: its current value, with as many rows as the batch.

        Callers must also `keep` a new value.
        """
        name = self.input(index)
        type = self.builder.variables.get(name)
        if type is None:
            return self.weights(index)
        shape = type.shape if rows is None else (rows, *type.shape[1:])
        return self.builder.state(name, type.with_shape(*shape))

    def keep(self, index: int, value: str) -> None:
        """Store a value in a state, for later readers and for the next run."""
        name = self.input(index)
        if name in self.builder.variables:
            self.builder.states[name] = self.add("identity", value, part="kept")

    def options(self, kind: type[T]) -> T:
        """Return the operator's options; the schema's defaults if the file omits them."""
        options_ = self.record.options
        if options_ is None:
            return kind()
        if not isinstance(options_, kind):
            raise ValueError(f"it has options of another operator ({type(options_).__name__})")
        return options_

    def give(
        self,
        op: str,
        *inputs: str | None,
        attributes: object = NONE,
        activation: int = 0,
        output: int = 0,
    ) -> None:
        """Add the node that writes an output, with the fused activation after it."""
        final = self.outputs[output]
        if not 0 <= activation < len(ACTIVATIONS):
            raise Unconvertible(f"fused activation number {activation} is not supported")
        if activation and not (self.clamped and activation in CLAMPING):
            inputs = (self.add(op, *inputs, attributes=attributes, part="pre"),)
            op, attributes = ACTIVATIONS[activation], NONE
        self.builder.node(op, inputs, attributes, final, self.name)

    def own_shape(self, index: int) -> Shape:
        """Return the shape of an input in the file."""
        return self.read[index].shape if self.read else self.input_type(index).shape

    def own_types(self, outputs: Sequence[str]) -> OwnTypes:
        """Return the types of its values in the file; `outputs` are its final outputs."""
        read = zip(self.inputs, self.read, strict=True)
        inputs = {name: type for name, type in read if name is not None}
        return OwnTypes(inputs, dict(zip(outputs, self.declared, strict=True)))

    def batch_axis(self, index: int) -> int | None:
        """Return the axis along which an input has grown with the batch; None if it has not."""
        now = self.input_type(index).shape
        return axis_of_batch(self.own_shape(index), now, self.builder.batch_factor)

    def change(self, index: int, numbers: Sequence[int]) -> None:
        """Record the value of a constant of the file for the caller's shapes."""
        name = self.optional(index)
        if name is None or not self.builder.reshaped or not self.in_file(index):
            return
        old = self.builder.constants[name]
        new = np.asarray(numbers, old.dtype).reshape(old.shape)
        if not np.array_equal(self.builder.changed.setdefault(name, new), new):
            raise ValueError(f"'{name}' would need two values at once")


Convert = Callable[[Operation], None]


@dataclass(frozen=True)
class Rule:
    """The rule for one TFLite operator.

    `weights`: its constants may be quantized while its values are float. `moves`: it only moves
    elements, so it can work on quantized constants directly. `states`: it handles its states itself
    (`Operation.recall`, `Operation.keep`). `resources`: it may have values that are not arrays, and
    no results.
    """

    convert: Convert
    weights: bool = False
    moves: bool = False
    states: bool = False
    resources: bool = False


RULES: dict[str, Rule] = {}


def converts(
    *ops: str,
    weights: bool = False,
    moves: bool = False,
    states: bool = False,
    resources: bool = False,
) -> Callable[[Convert], Convert]:
    """Register a function for TFLite operators; its docstring is shown to users."""

    def register(convert: Convert) -> Convert:
        for op in ops:
            RULES[op] = Rule(convert, weights, moves, states, resources)
        return convert

    return register
