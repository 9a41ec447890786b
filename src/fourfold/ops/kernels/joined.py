"""The parts of a joined node: intermediate values, and each part as separate kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fourfold.codegen.context import NodeContext, Scratch, TailStep
from fourfold.codegen.expression import Pointer
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.location import Layout, Stored, own_location, storage_elements
from fourfold.codegen.view import View
from fourfold.graph import Node, Step
from fourfold.ops.base import Types, registry
from fourfold.types import TensorType


@dataclass(frozen=True)
class Joined:
    """Nodes in order, each reading the result of the previous one.

    Values are named within the node: inputs by number, results by letter. `stored` is the storage
    of every result but the last, for when it goes through memory.
    """

    parts: tuple[Node, ...]
    stored: tuple[Stored, ...]


def part_types(attributes: Joined, inputs: Sequence[TensorType | None]) -> dict[str, TensorType]:
    """Return the type of every value by its number or letter."""
    types = {str(number): type_ for number, type_ in enumerate(inputs) if type_ is not None}
    for part in attributes.parts:
        operand_types = (None if name is None else types[name] for name in part.inputs)
        (result,) = registry()[part.op].infer(part.attributes, *operand_types)
        for step in part.tail:
            operands = (result if name is None else types[name] for name in step.inputs)
            (result,) = registry()[step.op].infer(step.attributes, *operands)
        types[part.outputs[0]] = result
    return types


Memories = Mapping[str, tuple[Scratch | Pointer, Stored]]


class PartContext(NodeContext):
    """The context of one part. Intermediate values are in memory that the caller provides."""

    def __init__(
        self,
        parent: NodeContext,
        node: Node,
        types: Mapping[str, TensorType],
        memories: Memories,
    ) -> None:
        steps = tuple(make_tail_step(step) for step in node.tail)
        own = {
            name: own_location(name, Layout.SLICED, types[name], stored)
            for name, (_, stored) in memories.items()
        }
        tail = parent.tail if node.outputs == parent.node.outputs else steps
        super().__init__(
            node,
            {**parent.types, **types},
            parent.constants,
            {**parent.locations, **own},
            tail,
            parent.target,
        )
        self.memories, self.kernels = memories, parent.kernels

    def view(self, kernel: Kernel, name: str, title: str, writable: bool = False) -> View:
        if name not in self.memories:
            return super().view(kernel, name, title, writable)
        memory, location = self.memories[name][0], self.locations[name]
        if not isinstance(memory, Pointer):
            memory = kernel.pointer(title, location.dtype, memory, writable)
        return View(kernel, memory, self.types[name], location)


def make_tail_step(step: Step) -> TailStep:
    """Convert a step of a node's tail to the form that kernels use."""
    pointwise = registry()[step.op].pointwise
    assert pointwise is not None, f"{step.op} cannot be in a tail"
    return TailStep(pointwise, step.attributes, step.inputs)


class Parts:
    """The parts of a joined node with the value names of the graph, and their result types."""

    def __init__(self, context: NodeContext) -> None:
        attributes = context.attributes
        assert isinstance(attributes, Joined)
        input_types: Types = tuple(context.types[str(name)] for name in context.node.inputs)
        output = context.node.outputs[0]
        names = {str(number): str(name) for number, name in enumerate(context.node.inputs)}
        for part in attributes.parts:
            names[part.outputs[0]] = f"{output}/{part.outputs[0]}"
        names[attributes.parts[-1].outputs[0]] = output
        self.context = context
        self.nodes = [part.renamed(names) for part in attributes.parts]
        between = [node.outputs[0] for node in self.nodes[:-1]]
        self.stored = dict(zip(between, attributes.stored, strict=True))
        letters = part_types(attributes, input_types)
        self.types = {names[part.outputs[0]]: letters[part.outputs[0]] for part in attributes.parts}
        self.all_types = {
            **self.types,
            **{str(name): context.types[str(name)] for name in context.node.inputs},
        }

    def write_apart(self, count: int) -> Memories:
        """Write the first `count` parts as separate kernels and return where their results are."""
        memories: dict[str, tuple[Scratch | Pointer, Stored]] = {}
        for node in self.nodes[:count]:
            name = node.outputs[0]
            if node.op == "reshape":
                memories[name] = memories[str(node.inputs[0])]
                continue
            if name in self.stored:
                stored = self.stored[name]
                elements = storage_elements(Layout.SLICED, self.types[name])
                scratch = self.context.scratch(name.rpartition("/")[2], stored.dtype, elements)
                memories[name] = (scratch, stored)
            part = PartContext(self.context, node, self.types, memories)
            variants = registry()[node.op].variants
            variant = next(v for v in variants if v.refuses(part) is None and v.suits(part))
            variant.build(part)
        return memories
