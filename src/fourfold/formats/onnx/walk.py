"""Converts the nodes of a graph in order and collects those that cannot be converted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from fourfold.errors import ModelError
from fourfold.formats.batch import OwnTypes, check_batch
from fourfold.formats.builder import GraphBuilder
from fourfold.formats.conversion import DAMAGE, EXPORT_AGAIN, Conversion, FileOperator
from fourfold.formats.onnx.convert import rules
from fourfold.formats.onnx.file import (
    FileRecord,
    FunctionRecord,
    GraphRecord,
    NodeRecord,
    TensorRecord,
    ValueRecord,
    read_graph,
)
from fourfold.formats.onnx.operation import Operation
from fourfold.formats.onnx.schema import NIBBLES, AttributeField, Element
from fourfold.formats.onnx.scope import Scope, captured, needed_nodes
from fourfold.formats.onnx.sizes import (
    NamedSizes,
    declared_type,
    element_guess,
    result_types,
    stored_element,
)
from fourfold.formats.onnx.tensors import ExternalFiles, array_of, declared, is_widened, no_arrays
from fourfold.formats.rule_table import Unconvertible
from fourfold.graph import NONE, Graph, Node
from fourfold.ops.cast import Cast
from fourfold.ops.foreign import Foreign
from fourfold.types import DType, TensorType

MIN_OPSET = 7  # oldest supported opset; older ones broadcast shapes by attributes
LOOPS = {
    "Loop": "its number of iterations is known only at run time, and loops are not unrolled",
    "Scan": "its body runs for each element of a sequence, and loops are not unrolled",
}
# Prefixes of operator names.
QUANTIZED_PREFIXES = ("QLinear", "QGemm", "QuantizeLinear", "DequantizeLinear")
Values = tuple[str | None, ...]
MAX_DEPTH, MAX_VALUES = 8, 2**17  # limits for nested functions and for values after inlining


@dataclass(kw_only=True)
class Walk(Conversion):
    """The conversion of the main graph, or of a function or branch inlined into it."""

    builder: GraphBuilder = field(kw_only=False)
    file: FileRecord
    files: ExternalFiles
    scope: Scope
    named: NamedSizes = field(default_factory=dict)
    values: Mapping[str, ValueRecord] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)  # names that are read
    keep_unsupported: bool = False
    quantized: bool = True
    number: int = 0
    float16_values: set[str] = field(default_factory=set)  # values stored as float16
    nibbles: set[str] = field(default_factory=set)  # 4-bit constants and inputs
    # types in the file's own batch
    own_types: Mapping[str, TensorType] = field(default_factory=dict)
    # Constants adapted to another batch.
    changed: dict[str, np.ndarray] = field(default_factory=dict)
    depth: int = 0

    def declare(self, value: str) -> bool:
        record = self.values.get(value)
        type = None if record is None else declared_type(record, self.named)
        if type is not None:
            self.builder.types[value] = type
        return type is not None

    def stand_in(self, operator: FileOperator, reason: str) -> bool:
        if not self.keep_unsupported:
            return False
        record = self.file.graph.nodes[self.number]
        read = [self.scope.find(name) for name in (*record.inputs, *captured(record)) if name]
        inputs = tuple(
            name for name in dict.fromkeys(read) if name is not None and name in self.builder.types
        )
        input_types = [
            self.builder.types.get(self.scope.find(name) or "") for name in record.inputs
        ]
        types, dynamic = self._result_types(record, input_types)
        dynamic = dynamic or not self.unsized.isdisjoint(inputs)  # declared types may be wrong then
        read_types = tuple(self.builder.types[name] for name in inputs)
        attributes = Foreign(
            "onnx", (self.number,), record.title, reason, types, read_types, dynamic
        )
        inputs = tuple(name for name in inputs if name not in self.builder.constants)
        self.add_foreign(inputs, operator.outputs, attributes, operator.name)
        return True

    def _result_types(
        self, record: NodeRecord, input_types: Sequence[TensorType | None]
    ) -> tuple[tuple[TensorType, ...], bool]:
        """Return the result types of an operator, and True if sizes are known only at run time."""
        types, dynamic = [], False
        declared_types = result_types(record, input_types, self.values, self.named)
        for index, (name, type) in enumerate(zip(record.outputs, declared_types, strict=True)):
            if name not in self.read:
                continue
            if type is None:
                dynamic = True
                guess = element_guess(record, index, input_types, self.values.get(name))
                type = TensorType(guess, ())
            types.append(type)
        return tuple(types), dynamic

    def value(self, name: str) -> str:
        """Return the value of a name that must exist by now; constants are loaded on first use."""
        existing = self.scope.find(name)
        if existing is not None and (existing in self.builder.types or existing in self.written):
            return existing
        record = self.scope.initializer(name)
        if record is None:
            raise ValueError(f"it reads '{name}', which no earlier operator has written")
        return self._load(name, record)

    def _load(self, name: str, record: TensorRecord) -> str:
        scope = self.scope
        while name not in scope.initializers and scope.outer is not None:
            scope = scope.outer
        value = scope.names.get(name) or self.builder.fresh(f"{scope.unit}/{name}")
        scope.names[name] = value
        try:
            if is_widened(record) and not self.builder.budget.take(declared(record), 1 << 62):
                raise Unconvertible(f"constant '{name}' is too large to unpack")
            self.builder.constant(value, array_of(record, self.files))
            if record.element == Element.FLOAT16:
                self.float16_values.add(value)
            if record.element in NIBBLES:
                self.nibbles.add(value)
        except (ValueError, LookupError) as error:
            raise ValueError(f"constant '{name}': {error}") from error
        return value

    def convert_node(self, record: NodeRecord) -> None:
        names = (*record.inputs, *captured(record))
        inputs = tuple(self.scope.find(name) if name else None for name in names)
        read_outputs = [name for name in record.outputs if name in self.read]
        operator = FileOperator(record.title, inputs, tuple(map(self.output, read_outputs)))
        self.convert(operator, partial(self._add_nodes, record, operator.outputs))

    def output(self, name: str) -> str:
        """Return the value that a node is going to write."""
        value = self.scope.names.get(name)
        if value is None:
            value = self.scope.names[name] = self.builder.fresh(f"{self.scope.unit}/{name}")
        return value

    def _add_nodes(self, record: NodeRecord, outputs: tuple[str, ...]) -> None:
        inputs = tuple(self.value(name) if name else None for name in record.inputs)
        for name in inputs:
            self._check_value(name)
        function = self.file.functions.get((record.domain, record.op, record.overload))
        if function is not None:
            _expand(self, record, function, inputs)
            return
        if record.title == "If":
            _choose_branch(self, record, inputs)
            return
        rule = rules().get(record.title)
        if rule is None:
            raise Unconvertible(LOOPS.get(record.title, "this operator is not supported"))
        if not self.quantized and record.op.startswith(QUANTIZED_PREFIXES):
            raise Unconvertible("it works on quantized values, and quantized=False was set")
        outputs_by_name = {name: self.output(name) for name in record.outputs if name in self.read}
        operation = Operation(
            self.builder,
            self.scope.unit or outputs[0],
            tuple(outputs_by_name.get(name) for name in record.outputs),
            inputs,
            record,
            self._version(record),
            attributes=self.scope.attributes_of(record),
            files=self.files,
            nibbles=self.nibbles,
            own_types=self.own_types,
            changed=self.changed,
        )
        before = len(self.builder.nodes)
        with np.errstate(all="ignore"):
            rule(operation)
        self._check_batch(operation, self.builder.nodes[before:])
        if _writes_float16(record, inputs, self.float16_values):
            types = self.builder.types
            self.float16_values.update(name for name in outputs if types[name].dtype is DType.F32)

    def _check_batch(self, operation: Operation, nodes: Sequence[Node]) -> None:
        """Check that a changed batch is processed image by image."""
        inputs, outputs = (
            {name: self.own_types[name] for name in names if name and name in self.own_types}
            for names in (operation.inputs, operation.outputs)
        )
        title = f"{operation.record.title} '{operation.name}'"
        check_batch(self.builder, title, OwnTypes(inputs, outputs), nodes)

    def _version(self, record: NodeRecord) -> int:
        version = self.scope.opsets.get(record.domain, 1)
        if not record.domain and version < MIN_OPSET:
            raise Unconvertible(
                f"it is of operator set {version}; the oldest supported one is {MIN_OPSET}"
            )
        return version

    def _check_value(self, name: str | None) -> None:
        """Refuse values that cannot be arrays, or whose size is not known yet."""
        if name is None:
            return
        type = self.builder.types[name]
        if not type.dtype.has_numpy:
            raise Unconvertible(no_arrays(name, type.dtype))
        if name in self.unsized:
            raise Unconvertible(f"the shape of '{name}' is known only at run time")

    def result(self, graph: GraphRecord) -> Graph | None:
        """Return the graph; None if an operator was refused."""
        outputs = []
        for record in graph.outputs:
            try:
                value = self.value(record.name)
            except Unconvertible as refusal:
                self.refuse("output", record.name, str(refusal))
                continue
            except DAMAGE as error:
                if record.name in self.scope.names and self.refusals:
                    continue  # its operator was refused
                what = f"output '{record.name}' of graph '{graph.name}' has no value"
                raise ModelError(what, str(error), EXPORT_AGAIN) from error
            outputs.append(self._as_stored(record, value))
        return self.finish(outputs, graph.name or "main")

    def _as_stored(self, record: ValueRecord, value: str) -> str:
        """Return an output in the file's own type; float16 is f32 inside graphs."""
        if record.element != Element.FLOAT16 or self.builder.types[value].dtype is not DType.F32:
            return value
        unit = next((n.name for n in reversed(self.builder.nodes) if value in n.outputs), value)
        stored = self.builder.fresh(f"{record.name}/stored")
        return self.builder.node("cast", (value,), Cast(DType.F16), stored, unit)


def _writes_float16(record: NodeRecord, inputs: Values, float16_inputs6_values: Set[str]) -> bool:
    """Return True if the file has the results of a node as float16."""
    if record.title == "Cast":
        to = record.attributes.get("to")
        return to is not None and to.integer(AttributeField.INTEGER) == Element.FLOAT16
    if record.title in ("Constant", "ConstantOfShape"):
        return stored_element(record) == Element.FLOAT16
    return not float16_inputs6_values.isdisjoint(
        inputs[1:] if record.title == "CastLike" else inputs
    )


def _expand(walk: Walk, record: NodeRecord, function: FunctionRecord, inputs: Values) -> None:
    """Inline a call of a function that the file defines."""
    pairs = zip(function.inputs, inputs, strict=False)
    names = {name: value for name, value in pairs if value is not None}
    scope = Scope(
        initializers={},
        opsets={**walk.file.opsets, **function.opsets},
        names=names,
        attributes={**function.defaults, **walk.scope.attributes_of(record)},
    )
    absent = set(function.inputs) - names.keys()
    nodes = [_without(node, absent) for node in function.nodes]
    try:
        _inline(walk, record, scope, nodes, function.outputs)
    except Unconvertible as refusal:
        if walk.builder.budget.nodes >= 0:
            raise
        # ONNX Runtime inlines functions as well, and does not stop.
        raise ValueError(f"its functions call each other too often: {refusal}") from refusal


def _without(record: NodeRecord, absent: set[str]) -> NodeRecord:
    """Return a node of a function with omitted inputs removed."""
    return replace(record, inputs=tuple("" if name in absent else name for name in record.inputs))


def _choose_branch(walk: Walk, record: NodeRecord, inputs: Values) -> None:
    """Inline the branch of an If whose condition is constant."""
    condition = walk.builder.constants.get(str(inputs[0]))
    if condition is None or condition.size != 1:
        raise Unconvertible("its condition is computed at run time")
    name = "then_branch" if condition.reshape(-1)[0] else "else_branch"
    message = walk.scope.attributes_of(record).get(name)
    graph = None if message is None else message.message(AttributeField.GRAPH)
    if graph is None:
        raise ValueError(f"it has no {name}")
    branch = read_graph(graph)
    scope = Scope(
        initializers=branch.initializers,
        opsets=walk.scope.opsets,
        outer=walk.scope,
        attributes=walk.scope.attributes,
    )
    nodes = [branch.nodes[number] for number in needed_nodes(branch)]
    _inline(walk, record, scope, nodes, [value.name for value in branch.outputs])


def _inline(
    walk: Walk,
    record: NodeRecord,
    scope: Scope,
    nodes: Sequence[NodeRecord],
    results: Sequence[str],
) -> None:
    """Convert the nodes that replace an operator; `results` become its outputs."""
    if walk.depth >= MAX_DEPTH:
        raise ValueError("its functions are nested too deeply")
    if len(walk.builder.types) > MAX_VALUES:
        raise ValueError(f"inlining it would exceed {MAX_VALUES} values")
    read_outputs = [name for name in record.outputs if name in walk.read]
    scope.unit = walk.scope.unit or walk.output(read_outputs[0])
    inner = Walk(
        walk.builder,
        file=walk.file,
        files=walk.files,
        scope=scope,
        read={*results, *(name for node in nodes for name in (*node.inputs, *captured(node)))},
        quantized=walk.quantized,
        unsized=walk.unsized,
        float16_values=walk.float16_values,
        nibbles=walk.nibbles,
        depth=walk.depth + 1,
    )
    for node in nodes:
        inner.convert_node(node)
        if inner.refusals:
            raise Unconvertible(f"inside it, {inner.refusals[0]}")
    for name, result in zip(record.outputs, results, strict=False):
        if name in walk.read:
            _give(walk.builder, inner.value(result), walk.output(name), scope.unit)


def _give(builder: GraphBuilder, value: str, output: str, unit: str) -> None:
    """Make an output equal to a value; constants stay constants."""
    array = builder.constants.get(value)
    if array is None:
        builder.node("identity", (value,), NONE, output, unit)
    else:
        builder.folded.add(output)
        builder.constant(output, array)
