"""y = transpose(x); z = f(y)  ->  t = f(x); z = transpose(t), wherever f can work on x.

Transposes go down the graph until they meet one that undoes them, or an op that needs its own order
of axes. Models of formats with their channels first have one before and one behind each
convolution; of these, none is left but at inputs and outputs. What f reads besides x is transposed
the other way: constants at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fourfold.graph import NONE, Graph, Node
from fourfold.op.registry import registry
from fourfold.ops.gather import Gather
from fourfold.ops.reshape import Reshape
from fourfold.ops.transpose import Transpose
from fourfold.rewrite._axes import (
    Order,
    composed,
    full_rank,
    gathered_order,
    inverse,
    keeps_order,
    moved_attributes,
    moved_constant,
    permuted,
    reshaped_order,
)
from fourfold.rewrite._names import PassConstants
from fourfold.types import Shape, TensorType


def sink_transposes(graph: Graph) -> Graph:
    if not any(node.op == "transpose" for node in graph.nodes):
        return graph
    sunk = _Sinking(graph).run()
    return sunk if moved_elements(sunk) < moved_elements(graph) else graph


def moved_elements(graph: Graph) -> int:
    """How many elements all transposes move."""
    return sum(
        graph.types[node.outputs[0]].elements
        for node in graph.nodes
        if isinstance(node.attributes, Transpose)
        and not keeps_order(node.attributes.permutation, graph.types[str(node.inputs[0])].shape)
    )


class _Sinking:
    """The graph while transposes sink. `waiting` has values that are a transpose of another one and
    that nothing needed as such so far; `flattened` those that are a reshape of one.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.constants = PassConstants(graph)
        self.types: dict[str, TensorType] = dict(graph.types)
        self.nodes: list[Node] = []
        self.waiting: dict[str, tuple[str, Order]] = {}
        self.flattened: dict[str, tuple[str, Node]] = {}
        self.turned: dict[tuple[str, Order], str] = {}  # transposes that are there
        self.names: dict[str, str] = {}  # values that turn out to be others

    def run(self) -> Graph:
        for old in self.graph.nodes:
            node = old.renamed(self.names)
            if not self._sink(node):
                self._append(node)
        for name in self.graph.outputs:
            self._need(self.names.get(name, name))
        return self.constants.apply(self.nodes)

    def _append(self, node: Node) -> None:
        for name in node.reads:
            self._need(name)
        self.nodes.append(node)

    def _declare(self, name: str, type_: TensorType) -> str:
        fresh = self.constants.declare(name, type_)
        self.types[fresh] = type_
        return fresh

    def _need(self, name: str) -> None:
        """Makes a value that has been waiting."""
        if name in self.waiting:
            source, order = self.waiting.pop(name)
            self.nodes.append(Node("transpose", (source,), (name,), Transpose(order), name=name))
            self.turned[source, order] = name
        elif name in self.flattened:
            source, node = self.flattened.pop(name)
            self._append(node)

    def _sink(self, node: Node) -> bool:
        """Whether the node has gone before a transpose, or is one itself."""
        if node.tail or len(node.outputs) != 1:
            return False
        if isinstance(node.attributes, Transpose):
            return self._take(node, node.attributes.permutation)
        if isinstance(node.attributes, Reshape):
            return self._reshape(node, node.attributes.shape)
        if node.op == "fully_connected":
            return self._product(node)
        if self.waiting.keys().isdisjoint(node.reads):
            return False
        if isinstance(node.attributes, Gather):
            return self._gather(node, node.attributes)
        return self._move(node)

    def _take(self, node: Node, permutation: Order) -> bool:
        """A transpose waits; with one before it, it is one with that."""
        name, output = str(node.inputs[0]), node.outputs[0]
        source, order = self.waiting.get(name, (name, tuple(range(len(permutation)))))
        if source in self.constants:
            return False
        order = composed(order, permutation)
        if order == tuple(range(len(order))):
            if output in self.graph.outputs:
                self.nodes.append(replace(node, op="identity", inputs=(source,), attributes=NONE))
            else:
                self.names[output] = source
        elif (source, order) in self.turned and output not in self.graph.outputs:
            self.names[output] = self.turned[source, order]
        else:
            self.waiting[output] = (source, order)
        return True

    def _reshape(self, node: Node, shape: Shape) -> bool:
        name, output = str(node.inputs[0]), node.outputs[0]
        if name not in self.waiting:
            return False
        source, order = self.waiting[name]
        if keeps_order(order, self.types[source].shape):
            self.nodes.append(replace(node, inputs=(source,)))
            return True
        found = reshaped_order(self.types[name].shape, shape, order)
        if found is None:
            rows = self.types[name].shape[:1] == shape[:1] and order[0] == 0 and len(shape) == 2
            if rows and output not in self.graph.outputs:
                self.flattened[output] = (name, node)
            return rows and output in self.flattened
        made = self._declare(f"{output}/before", self.types[output].with_shape(*found[0]))
        attributes = Reshape(found[0])
        self.nodes.append(replace(node, inputs=(source,), outputs=(made,), attributes=attributes))
        self._wait(output, made, found[1])
        return True

    def _wait(self, output: str, source: str, order: Order) -> None:
        if order == tuple(range(len(order))) and output not in self.graph.outputs:
            self.names[output] = source
        else:
            self.waiting[output] = (source, order)

    def _product(self, node: Node) -> bool:
        """Weights that read a flattened image can read it in its own order."""
        name, weights = node.inputs[0], node.inputs[1]
        if name not in self.flattened or weights not in self.constants:
            return False
        planes, flat = self.flattened[str(name)]
        if planes not in self.waiting:
            return False
        source, order = self.waiting[planes]
        shape, back = self.types[planes].shape, inverse(order)
        array = self.constants[str(weights)].reshape(-1, *shape[1:]).transpose(back)
        fresh = self.constants.add(f"{weights}/turned", array.reshape(array.shape[0], -1))
        rows = self._declare(f"{name}/before", self.types[str(name)])
        self.nodes.append(replace(flat, inputs=(source,), outputs=(rows,)))
        self.nodes.append(replace(node, inputs=(rows, fresh, *node.inputs[2:])))
        return True

    def _gather(self, node: Node, attributes: Gather) -> bool:
        name, indices = str(node.inputs[0]), str(node.inputs[1])
        if name not in self.waiting or attributes.batch_dims:
            return False
        self._need(indices)
        source, order = self.waiting[name]
        output, added = node.outputs[0], self.types[indices].rank
        after = gathered_order(order, attributes.axis, added)
        shape = permuted(self.types[output].shape, inverse(after))
        made = self._declare(f"{output}/before", self.types[output].with_shape(*shape))
        moved = Gather(order[attributes.axis])
        inputs = (source, indices)
        self.nodes.append(replace(node, inputs=inputs, outputs=(made,), attributes=moved))
        self._wait(output, made, after)
        return True

    def _move(self, node: Node) -> bool:
        """An op whose inputs broadcast: they come in the order that moves fewest elements."""
        output = node.outputs[0]
        op, rank = registry()[node.op], self.types[output].rank
        if op.pointwise is None and not _moves(node, rank):
            return False
        order = self._best_order(node.inputs, rank)
        attributes = node.attributes
        if order is not None and op.pointwise is None:
            attributes = moved_attributes(node.op, node.attributes, order)
        if order is None or attributes is None:
            return False
        inputs = tuple(None if name is None else self._turned(name, order) for name in node.inputs)
        shape = permuted(self.types[output].shape, inverse(order))
        made = self._declare(f"{output}/before", self.types[output].with_shape(*shape))
        self.nodes.append(replace(node, inputs=inputs, outputs=(made,), attributes=attributes))
        self._wait(output, made, order)
        return True

    def _best_order(self, names: Iterable[str | None], rank: int) -> Order | None:
        """The order in which the inputs of a node are best read; None for that of the graph."""
        read = [name for name in dict.fromkeys(names) if name is not None]
        orders = dict.fromkeys(
            self.waiting[name][1]
            for name in read
            if name in self.waiting and self.types[name].rank == rank
        )
        stay = sum(self.types[name].elements for name in read if name in self.waiting)
        costs = {order: sum(self._cost(name, order) for name in read) for order in orders}
        best = min(orders, key=lambda order: costs[order], default=None)
        return best if best is not None and costs[best] <= stay else None

    def _cost(self, name: str, order: Order) -> int:
        """How many elements move when a value is read before a transpose of this order."""
        if name in self.constants:
            return 0
        if name in self.waiting and self.waiting[name][1] == order:
            return 0
        shape = full_rank(self.types[name].shape, len(order))
        return 0 if keeps_order(inverse(order), shape) else self.types[name].elements

    def _turned(self, name: str, order: Order) -> str:
        """A value as it is before a transpose of this order."""
        back, type_ = inverse(order), self.types[name]
        if name in self.constants:
            array = self.constants[name]
            if array.size == 1:
                return name
            return self.constants.add(f"{name}/turned", moved_constant(array, back))
        if name in self.waiting and self.waiting[name][1] == order:
            return self.waiting[name][0]
        if type_.elements == 1 and type_.rank <= 1:
            self._need(name)
            return name
        return self._made_turned(name, back)

    def _made_turned(self, name: str, back: Order) -> str:
        if (name, back) in self.turned:
            return self.turned[name, back]
        self._need(name)
        shape = full_rank(self.types[name].shape, len(back))
        wanted, source = permuted(shape, back), name
        if shape != self.types[name].shape and not keeps_order(back, shape):
            source = self._declare(f"{name}/rank", self.types[name].with_shape(*shape))
            self.nodes.append(Node("reshape", (name,), (source,), Reshape(shape), name=name))
        made = self._declare(f"{name}/turned", self.types[name].with_shape(*wanted))
        flat = keeps_order(back, shape)
        attributes = Reshape(wanted) if flat else Transpose(back)
        op = "reshape" if flat else "transpose"
        self.nodes.append(Node(op, (source,), (made,), attributes, name=name))
        self.turned[name, back] = made
        return made


def _moves(node: Node, rank: int) -> bool:
    """Whether an op that is not pointwise may work on another order of axes at all."""
    return moved_attributes(node.op, node.attributes, tuple(range(rank))) is not None
