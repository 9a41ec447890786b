"""y = transpose(x); z = f(y)  ->  t = f(x); z = transpose(t), wherever f can work on x.

Transposes move down the graph until they meet one that undoes them, or an op that needs its own
order of axes. Models of channels-first formats have one before and one after each convolution; only
those at inputs and outputs remain. Other inputs of f are transposed the other way, constants
immediately.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fourfold.compiler.rewrite._axes import (
    gathered_order,
    grouped_order,
    permute_attributes,
    permute_constant,
)
from fourfold.compiler.rewrite._names import PassConstants
from fourfold.graph import NONE, Graph, Node
from fourfold.ops.base import registry
from fourfold.ops.base.axis_orders import (
    Order,
    compose_orders,
    inverse,
    keeps_order,
    move_reshape_before,
    pad_rank,
    permuted,
)
from fourfold.ops.gather import Gather
from fourfold.ops.reshape import Reshape
from fourfold.ops.transpose import Transpose
from fourfold.types import Shape, TensorType


def sink_transposes(graph: Graph) -> Graph:
    if not any(node.op == "transpose" for node in graph.nodes):
        return graph
    sunk = _Sinking(graph).run()
    return sunk if moved_elements(sunk) < moved_elements(graph) else graph


def moved_elements(graph: Graph) -> int:
    """Return how many elements all transposes move."""
    return sum(
        graph.types[node.outputs[0]].elements
        for node in graph.nodes
        if isinstance(node.attributes, Transpose)
        and not keeps_order(node.attributes.permutation, graph.types[str(node.inputs[0])].shape)
    )


class _Values:
    """The values while transposes sink.

    `waiting` has transposes of other values that no node has needed as such so far; `flattened` has
    reshapes of those.
    """

    def __init__(self, graph: Graph) -> None:
        self.constants = PassConstants(graph)
        self.types: dict[str, TensorType] = dict(graph.types)
        self.nodes: list[Node] = []
        self.waiting: dict[str, tuple[str, Order]] = {}
        self.flattened: dict[str, tuple[str, Node]] = {}
        self.turned: dict[tuple[str, Order], str] = {}  # transposes that exist as nodes

    def append(self, node: Node) -> None:
        """Add a node that needs its inputs as they are."""
        for name in node.reads:
            self.need(name)
        self.nodes.append(node)

    def declare(self, name: str, like: str, shape: Shape) -> str:
        """Declare a value with the element type of another one."""
        type_ = self.types[like].with_shape(*shape)
        fresh = self.constants.declare(name, type_)
        self.types[fresh] = type_
        return fresh

    def need(self, name: str) -> None:
        """Add the node of a value that has been waiting."""
        if name in self.waiting:
            source, order = self.waiting.pop(name)
            self.nodes.append(Node("transpose", (source,), (name,), Transpose(order), name=name))
            self.turned[source, order] = name
        elif name in self.flattened:
            self.append(self.flattened.pop(name)[1])

    def best_order(self, names: Iterable[str | None], rank: int) -> Order | None:
        """Return the best axis order to read a node's inputs in; None for that of the graph."""
        read = [name for name in dict.fromkeys(names) if name is not None]
        waiting = [name for name in read if name in self.waiting]
        orders = [self.waiting[name][1] for name in waiting if self.types[name].rank == rank]
        stay = sum(self.types[name].elements for name in waiting)
        costs = {order: sum(self._cost(name, order) for name in read) for order in set(orders)}
        best = min(orders, key=lambda order: costs[order], default=None)
        return best if best is not None and costs[best] <= stay else None

    def _cost(self, name: str, order: Order) -> int:
        """Return how many elements move if a value is read before a transpose of this order."""
        if name in self.constants or self.waiting.get(name, ("", ()))[1] == order:
            return 0
        shape = pad_rank(self.types[name].shape, len(order))
        return 0 if keeps_order(inverse(order), shape) else self.types[name].elements

    def before(self, name: str, order: Order) -> str:
        """Return a value as it is before a transpose of this order."""
        back = inverse(order)
        if name in self.constants:
            array = self.constants[name]
            if array.size == 1:
                return name
            return self.constants.add(f"{name}/turned", permute_constant(array, back))
        if name in self.waiting and self.waiting[name][1] == order:
            return self.waiting[name][0]
        self.need(name)
        if self.types[name].elements == 1 and self.types[name].rank <= 1:
            return name
        if (name, back) not in self.turned:
            self.turned[name, back] = self._add_transpose(name, back)
        return self.turned[name, back]

    def _add_transpose(self, name: str, back: Order) -> str:
        """Add a transpose, or an equivalent reshape."""
        shape, source = pad_rank(self.types[name].shape, len(back)), name
        turned = self.declare(f"{name}/turned", name, permuted(shape, back))
        if keeps_order(back, shape):
            attributes = Reshape(self.types[turned].shape)
            self.nodes.append(Node("reshape", (source,), (turned,), attributes, name=name))
            return turned
        if shape != self.types[name].shape:
            source = self.declare(f"{name}/rank", name, shape)
            self.nodes.append(Node("reshape", (name,), (source,), Reshape(shape), name=name))
        self.nodes.append(Node("transpose", (source,), (turned,), Transpose(back), name=name))
        return turned


class _Sinking:
    """Moves each node of a graph before the transposes that it reads."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values = _Values(graph)
        self.names: dict[str, str] = {}  # values that are equal to others

    def run(self) -> Graph:
        values = self.values
        for old in self.graph.nodes:
            node = old.renamed(self.names)
            if node.tail or len(node.outputs) != 1 or not self._sink(node):
                values.append(node)
        for name in self.graph.outputs:
            values.need(name)
        return values.constants.apply(values.nodes)

    def _sink(self, node: Node) -> bool:
        """Move the node before a transpose, or hold it if it is one; return whether it did."""
        if isinstance(node.attributes, Transpose):
            return self._hold_transpose(node, node.attributes.permutation)
        if isinstance(node.attributes, Reshape):
            return self._reshape(node, node.attributes.shape)
        if node.op == "fully_connected":
            return self._product(node)
        if self.values.waiting.keys().isdisjoint(node.reads):
            return False
        if isinstance(node.attributes, Gather):
            return self._gather(node, node.attributes)
        return self._move(node)

    def _hold_transpose(self, node: Node, permutation: Order) -> bool:
        """Let a transpose wait; it is compose_orders with a waiting one before it."""
        name, output, values = str(node.inputs[0]), node.outputs[0], self.values
        source, order = values.waiting.get(name, (name, tuple(range(len(permutation)))))
        if source in values.constants:
            return False
        order = compose_orders(order, permutation)
        fixed = self.graph.is_output(output)
        if order == tuple(range(len(order))) and fixed:
            values.append(replace(node, op="identity", inputs=(source,), attributes=NONE))
        elif (source, order) in values.turned and not fixed:
            self.names[output] = values.turned[source, order]
        else:
            self._record_waiting(output, source, order)
        return True

    def _record_waiting(self, output: str, source: str, order: Order) -> None:
        """Record an output as a waiting transpose; an identity becomes a rename."""
        if order == tuple(range(len(order))) and not self.graph.is_output(output):
            self.names[output] = source
        else:
            self.values.waiting[output] = (source, order)

    def _add_before(
        self, node: Node, inputs: tuple[str | None, ...], attributes: object, order: Order
    ) -> None:
        """Add the node before a transpose of this order; its output waits as that transpose."""
        output, values = node.outputs[0], self.values
        shape = permuted(values.types[output].shape, inverse(order))
        inner = values.declare(f"{output}/before", output, shape)
        values.append(replace(node, inputs=inputs, outputs=(inner,), attributes=attributes))
        self._record_waiting(output, inner, order)

    def _reshape(self, node: Node, shape: Shape) -> bool:
        name, output, values = str(node.inputs[0]), node.outputs[0], self.values
        if name not in values.waiting:
            return False
        source, order = values.waiting[name]
        if keeps_order(order, values.types[source].shape):
            values.append(replace(node, inputs=(source,)))
            return True
        own = values.types[name].shape
        moved = move_reshape_before(own, shape, order)
        if moved is not None:
            self._add_before(node, (source,), Reshape(moved[0]), moved[1])
            return True
        rows = len(shape) == 2 and own[:1] == shape[:1] and order[0] == 0
        if rows and not self.graph.is_output(output):
            values.flattened[output] = (name, node)
        return output in values.flattened or self._regroup(node, shape)

    def _regroup(self, node: Node, shape: Shape) -> bool:
        """Handle a reshape that joins separate axes: transpose only to bring them together."""
        name, values = str(node.inputs[0]), self.values
        source, order = values.waiting[name]
        first = grouped_order(values.types[name].shape, shape, order)
        if first is None:
            return False
        remaining = tuple(first.index(axis) for axis in order)
        moved = move_reshape_before(values.types[name].shape, shape, remaining)
        if moved is None or remaining == tuple(range(len(remaining))):
            return False
        if (source, first) not in values.turned:
            grouped = values.declare(
                f"{name}/joined", name, permuted(values.types[source].shape, first)
            )
            attributes = Transpose(first)
            values.nodes.append(
                Node("transpose", (source,), (grouped,), attributes, name=node.name)
            )
            values.turned[source, first] = grouped
        self._add_before(node, (values.turned[source, first],), Reshape(moved[0]), moved[1])
        return True

    def _product(self, node: Node) -> bool:
        """Permute weights that read a flattened image, so that they read it in its own order."""
        (name, weights), values = node.inputs[:2], self.values
        planes, flat = values.flattened.get(str(name), ("", node))
        if planes not in values.waiting or weights not in values.constants:
            return False
        source, order = values.waiting[planes]
        shape = values.types[planes].shape
        array = values.constants[str(weights)].reshape(-1, *shape[1:]).transpose(inverse(order))
        turned = values.constants.add(f"{weights}/turned", array.reshape(array.shape[0], -1))
        rows = values.declare(f"{name}/before", str(name), values.types[str(name)].shape)
        values.append(replace(flat, inputs=(source,), outputs=(rows,)))
        values.append(replace(node, inputs=(rows, turned, *node.inputs[2:])))
        return True

    def _gather(self, node: Node, attributes: Gather) -> bool:
        name, indices = str(node.inputs[0]), str(node.inputs[1])
        if name not in self.values.waiting or attributes.batch_dims:
            return False
        source, order = self.values.waiting[name]
        after = gathered_order(order, attributes.axis, self.values.types[indices].rank)
        self._add_before(node, (source, indices), Gather(order[attributes.axis]), after)
        return True

    def _move(self, node: Node) -> bool:
        """Move an op with broadcast inputs, in the order that moves fewest elements."""
        pointwise = registry()[node.op].pointwise is not None
        rank = self.values.types[node.outputs[0]].rank
        if not pointwise and not _can_permute(node, rank):
            return False
        order, attributes = self.values.best_order(node.inputs, rank), node.attributes
        if order is not None and not pointwise:
            attributes = permute_attributes(node.op, node.attributes, order)
        if order is None or attributes is None:
            return False
        read = (None if name is None else self.values.before(name, order) for name in node.inputs)
        self._add_before(node, tuple(read), attributes, order)
        return True


def _can_permute(node: Node, rank: int) -> bool:
    """Return whether an op that is not pointwise can work on another order of axes."""
    return permute_attributes(node.op, node.attributes, tuple(range(rank))) is not None
