"""Walks the nodes of a graph in order and converts each; what cannot be is collected."""

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
from fourfold.formats.onnx.external import ExternalFiles
from fourfold.formats.onnx.file import read_graph
from fourfold.formats.onnx.leftover import element_guess, result_types, stored_element
from fourfold.formats.onnx.operation import Operation
from fourfold.formats.onnx.records import (
    FileRecord,
    FunctionRecord,
    GraphRecord,
    NodeRecord,
    TensorRecord,
    ValueRecord,
)
from fourfold.formats.onnx.schema import NIBBLES, AttributeField, Element
from fourfold.formats.onnx.scope import Scope, captured, needed_nodes
from fourfold.formats.onnx.sizes import NamedSizes, declared_type
from fourfold.formats.onnx.tensors import array_of, declared, is_widened, no_arrays
from fourfold.formats.refusal import Unconvertible
from fourfold.graph import NONE, Graph, Node
from fourfold.ops.cast import Cast
from fourfold.ops.foreign import Foreign
from fourfold.types import DType, TensorType

OLDEST = 7  # version of ONNX's own operators; before it, shapes broadcast by attributes
LOOPS = {
    "Loop": "its body runs as often as a run tells, and loops are not unrolled",
    "Scan": "its body runs for each element of a sequence, and loops are not unrolled",
}
QUANTISED = ("QLinear", "QGemm", "QuantizeLinear", "DequantizeLinear")  # how their names begin
Values = tuple[str | None, ...]
MOST_DEPTH, MOST_VALUES = 8, 2**17  # of functions inside of each other, and what they become


@dataclass(kw_only=True)
class Walk(Conversion):
    """The conversion of the main graph, or of one that an operator of it stands for."""

    builder: GraphBuilder = field(kw_only=False)
    file: FileRecord
    files: ExternalFiles
    scope: Scope
    named: NamedSizes = field(default_factory=dict)
    values: Mapping[str, ValueRecord] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)  # names that anything reads
    keep_unsupported: bool = False
    quantized: bool = True
    number: int = 0
    halves: set[str] = field(default_factory=set)  # values that the file has as half floats
    nibbles: set[str] = field(default_factory=set)  # constants and inputs of four bits
    own_types: Mapping[str, TensorType] = field(default_factory=dict)  # in the file's own batch
    changed: dict[str, np.ndarray] = field(default_factory=dict)  # constants, for another batch
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
        given = [self.builder.types.get(self.scope.find(name) or "") for name in record.inputs]
        types, dynamic = self._result_types(record, given)
        dynamic = dynamic or not self.unsized.isdisjoint(inputs)  # what was told may be wrong then
        known = tuple(self.builder.types[name] for name in inputs)
        attributes = Foreign("onnx", (self.number,), record.title, reason, types, known, dynamic)
        inputs = tuple(name for name in inputs if name not in self.builder.constants)
        self.add_foreign(inputs, operator.outputs, attributes, operator.name)
        return True

    def _result_types(
        self, record: NodeRecord, given: Sequence[TensorType | None]
    ) -> tuple[tuple[TensorType, ...], bool]:
        """The types of what an operator gives, and whether only a run knows the sizes."""
        found, dynamic = [], False
        said = result_types(record, given, self.values, self.named)
        for index, (name, type) in enumerate(zip(record.outputs, said, strict=True)):
            if name not in self.read:
                continue
            if type is None:
                dynamic = True
                guess = element_guess(record, index, given, self.values.get(name))
                type = TensorType(guess, ())
            found.append(type)
        return tuple(found), dynamic

    def value(self, name: str) -> str:
        """The value of a name that must exist by now; constants are loaded when they are read."""
        found = self.scope.find(name)
        if found is not None and (found in self.builder.types or found in self.written):
            return found
        record = self.scope.initializer(name)
        if record is None:
            raise ValueError(f"it reads '{name}', which nothing has written before")
        return self._load(name, record)

    def _load(self, name: str, record: TensorRecord) -> str:
        scope = self.scope
        while name not in scope.initializers and scope.outer is not None:
            scope = scope.outer
        value = scope.names.get(name) or self.builder.fresh(f"{scope.unit}/{name}")
        scope.names[name] = value
        try:
            if is_widened(record) and not self.builder.budget.take(declared(record), 1 << 62):
                raise Unconvertible(f"constant '{name}' is too large to be unpacked")
            self.builder.constant(value, array_of(record, self.files))
            if record.element == Element.FLOAT16:
                self.halves.add(value)
            if record.element in NIBBLES:
                self.nibbles.add(value)
        except (ValueError, LookupError) as error:
            raise ValueError(f"constant '{name}': {error}") from error
        return value

    def convert_node(self, record: NodeRecord) -> None:
        names = (*record.inputs, *captured(record))
        inputs = tuple(self.scope.find(name) if name else None for name in names)
        wanted = [name for name in record.outputs if name in self.read]
        operator = FileOperator(record.title, inputs, tuple(map(self.output, wanted)))
        self.convert(operator, partial(self._add_nodes, record, operator.outputs))

    def output(self, name: str) -> str:
        """The value that a node is going to write."""
        found = self.scope.names.get(name)
        if found is None:
            found = self.scope.names[name] = self.builder.fresh(f"{self.scope.unit}/{name}")
        return found

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
            raise Unconvertible(LOOPS.get(record.title, "this op is not known yet"))
        if not self.quantized and record.op.startswith(QUANTISED):
            raise Unconvertible("it works on quantised values, and quantized=False was asked for")
        places = {name: self.output(name) for name in record.outputs if name in self.read}
        operation = Operation(
            self.builder,
            self.scope.unit or outputs[0],
            tuple(places.get(name) for name in record.outputs),
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
        if _gives_halves(record, inputs, self.halves):
            types = self.builder.types
            self.halves.update(name for name in outputs if types[name].dtype is DType.F32)

    def _check_batch(self, operation: Operation, nodes: Sequence[Node]) -> None:
        """Where the caller has changed the batch, every image goes its own way."""
        inputs, outputs = (
            {name: self.own_types[name] for name in names if name and name in self.own_types}
            for names in (operation.inputs, operation.outputs)
        )
        title = f"{operation.record.title} '{operation.name}'"
        check_batch(self.builder, title, OwnTypes(inputs, outputs), nodes)

    def _version(self, record: NodeRecord) -> int:
        version = self.scope.opsets.get(record.domain, 1)
        if not record.domain and version < OLDEST:
            raise Unconvertible(
                f"it is of operator set {version}, and {OLDEST} is the oldest known"
            )
        return version

    def _check_value(self, name: str | None) -> None:
        """Refuses what cannot be an array here, or has no size yet."""
        if name is None:
            return
        type = self.builder.types[name]
        if not type.dtype.has_numpy:
            raise Unconvertible(no_arrays(name, type.dtype))
        if name in self.unsized:
            raise Unconvertible(f"the shape of '{name}' is known only at run time")

    def result(self, graph: GraphRecord) -> Graph | None:
        """The graph; None if anything was refused."""
        outputs = []
        for record in graph.outputs:
            try:
                value = self.value(record.name)
            except Unconvertible as refusal:
                self.refuse("output", record.name, str(refusal))
                continue
            except DAMAGE as error:
                if record.name in self.scope.names and self.refusals:
                    continue  # what would have written it was refused
                what = f"output '{record.name}' of graph '{graph.name}' has no value"
                raise ModelError(what, str(error), EXPORT_AGAIN) from error
            outputs.append(self._as_stored(record, value))
        return self.finish(outputs, graph.name or "main")

    def _as_stored(self, record: ValueRecord, value: str) -> str:
        """An output in the file's own type: half floats are f32 inside of graphs."""
        if record.element != Element.FLOAT16 or self.builder.types[value].dtype is not DType.F32:
            return value
        unit = next((n.name for n in reversed(self.builder.nodes) if value in n.outputs), value)
        stored = self.builder.fresh(f"{record.name}/stored")
        return self.builder.node("cast", (value,), Cast(DType.F16), stored, unit)


def _gives_halves(record: NodeRecord, inputs: Values, halves: Set[str]) -> bool:
    """Whether the file has the results of a node as half floats."""
    if record.title == "Cast":
        to = record.attributes.get("to")
        return to is not None and to.integer(AttributeField.INTEGER) == Element.FLOAT16
    if record.title in ("Constant", "ConstantOfShape"):
        return stored_element(record) == Element.FLOAT16
    return not halves.isdisjoint(inputs[1:] if record.title == "CastLike" else inputs)


def _expand(walk: Walk, record: NodeRecord, function: FunctionRecord, inputs: Values) -> None:
    """A call of a function that the file defines is what the function does."""
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
    _inline(walk, record, scope, nodes, function.outputs)


def _without(record: NodeRecord, absent: set[str]) -> NodeRecord:
    """A node of a function for a call that leaves some of its inputs out."""
    return replace(record, inputs=tuple("" if name in absent else name for name in record.inputs))


def _choose_branch(walk: Walk, record: NodeRecord, inputs: Values) -> None:
    """An If whose condition is known is the branch that it takes."""
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
    """The nodes that an operator stands for in its place; `results` become its outputs."""
    if walk.depth >= MOST_DEPTH:
        raise ValueError("what it stands for lies too deep inside of itself")
    if len(walk.builder.types) > MOST_VALUES:
        raise Unconvertible(f"with it there would be more than {MOST_VALUES} values")
    wanted = [name for name in record.outputs if name in walk.read]
    scope.unit = walk.scope.unit or walk.output(wanted[0])
    inner = Walk(
        walk.builder,
        file=walk.file,
        files=walk.files,
        scope=scope,
        read={*results, *(name for node in nodes for name in (*node.inputs, *captured(node)))},
        quantized=walk.quantized,
        unsized=walk.unsized,
        halves=walk.halves,
        nibbles=walk.nibbles,
        depth=walk.depth + 1,
    )
    for node in nodes:
        inner.convert_node(node)
        if inner.refusals:
            raise Unconvertible(f"inside of it, {inner.refusals[0]}")
    for name, result in zip(record.outputs, results, strict=False):
        if name in walk.read:
            _give(walk.builder, inner.value(result), walk.output(name), scope.unit)


def _give(builder: GraphBuilder, value: str, output: str, unit: str) -> None:
    """Lets an output be equal to a value; what is known stays known."""
    known = builder.constants.get(value)
    if known is None:
        builder.node("identity", (value,), NONE, output, unit)
    else:
        builder.folded.add(output)
        builder.constant(output, known)
