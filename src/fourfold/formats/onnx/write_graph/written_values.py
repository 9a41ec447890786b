"""WrittenValues: the values of a graph as tensors of an ONNX file.

A value of the graph may be in the file in several orders of axes: convolutions take and give their
channels first, other operators take what is there. A transpose stands in the file only where an
order is read that is not there yet; those of the graph itself only rename axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from fourfold.formats.inputs import OPEN
from fourfold.formats.onnx.schema import ELEMENTS
from fourfold.formats.onnx.write_graph.operator_list import OperatorList, Port
from fourfold.formats.onnx.write_graph.stored_values import (
    is_widened,
    read_stored,
    store,
    stored_constant,
)
from fourfold.formats.writable import WritableModel
from fourfold.op.axis_orders import Order, composed, full_rank, keeps_order, permuted
from fourfold.types import Shape, TensorType


def identity(rank: int) -> Order:
    return tuple(range(rank))


def channels_first(rank: int) -> Order:
    """The order in which ONNX's layers over images take [N, ..., C]."""
    return (0, rank - 1, *range(1, rank - 1))


class WrittenValues(OperatorList):
    """Which tensor is which value of the graph, in which order of axes."""

    def __init__(self, model: WritableModel) -> None:
        super().__init__()
        self.graph, self.stored = model.graph, model.stored
        self._forms: dict[str, dict[Order, str]] = {}
        self._origins: dict[str, tuple[str, Order]] = {}  # values that are transposes of others
        self._integers: dict[str, tuple[str, Order]] = {}  # values that are stored as something
        self.open_batch = any(sizes[:1] == (OPEN,) for sizes in model.open_sizes)

    def type(self, value: str | None) -> TensorType:
        return self.graph.types[str(value)]

    def read(self, value: str | None, order: Order | None = None) -> str:
        """The tensor that is the value, under this order of its axes; its own without one."""
        name = str(value)
        wanted = identity(self.type(name).rank) if order is None else order
        origin, own = self._origin(name)
        wanted = composed(own, wanted)
        forms = self._forms.setdefault(origin, {})
        if wanted not in forms:
            constant = origin in self.graph.constants
            forms[wanted] = self._constant(origin, wanted) if constant else self._turn(name, wanted)
        return forms[wanted]

    def read_broadcast(self, value: str | None, order: Order) -> str:
        """A value for an operator whose result has more axes perhaps, under their order."""
        name, rank = str(value), len(order)
        type_ = self.type(name)
        if type_.rank == rank:
            return self.read(name, order)
        if order == identity(rank) or (type_.elements == 1 and type_.rank <= 1):
            return self.read(name)
        if name in self.graph.constants:
            return self._constant(name, order)
        shape = full_rank(type_.shape, rank)
        if keeps_order(order, self.at_least(shape)):
            return self.add("Reshape", self.read(name), self.integers(permuted(shape, order)))
        wide = self.add("Reshape", self.read(name), self.integers(shape))
        return self.add("Transpose", wide, perm=order)

    def reshape(self, tensor: str, shape: Shape, wanted: Shape) -> str:
        """A tensor of this shape in another one; the first axis of an open batch follows."""
        follows = self.open_batch and shape[:1] == wanted[:1] and 0 not in wanted[1:]
        sizes = (OPEN, *wanted[1:]) if follows else wanted
        return self.add("Reshape", tensor, self.integers(sizes))

    def at_least(self, shape: Shape) -> Shape:
        """A shape for questions of order: an open batch of one may be one of several."""
        return (max(shape[0], 2), *shape[1:]) if self.open_batch and shape else shape

    def give(self, value: str, tensor: str, order: Order | None = None) -> None:
        """Makes a tensor the value, under this order of its axes."""
        order = identity(self.type(value).rank) if order is None else order
        plain = order == identity(len(order))
        stored = self.stored.get(value)
        if stored is not None:
            self._integers[value] = (store(self, tensor, stored), order)
            tensor = read_stored(self, self._integers[value][0], stored)
        self.call(tensor, value if plain else f"{value}/channels_first")
        self._forms.setdefault(value, {})[order] = tensor

    def rename(self, value: str, source: str, order: Order) -> None:
        """Makes a value a transpose of another one."""
        if value in self.stored and self.stored[value] != self.stored.get(source):
            back = tuple(order.index(axis) for axis in range(len(order)))
            best = self.best_order([source], len(order))
            self.give(value, self.read(source, best), composed(back, best))
            return
        origin, own = self._origin(source)
        self._origins[value] = (origin, composed(own, order))

    def orders(self, value: str) -> list[Order]:
        """The orders in which a value is there; constants are in any."""
        origin, own = self._origin(value)
        if origin in self.graph.constants:
            return []
        return [tuple(own.index(axis) for axis in order) for order in self._forms[origin]]

    def best_order(self, values: Iterable[str | None], rank: int) -> Order:
        """The order in which fewest elements of these values move."""
        names = [name for name in values if name is not None and self.orders(name)]
        whole = [order for name in names for order in self.orders(name) if len(order) == rank]
        candidates = dict.fromkeys((*whole, identity(rank)))

        def cost(order: Order) -> int:
            return sum(
                0 if self._is_near(name, order) else self.type(name).elements for name in names
            )

        return min(candidates, key=cost)

    def _is_near(self, value: str, order: Order) -> bool:
        """Whether a value can be read under an order without moving its elements."""
        shape = self.at_least(full_rank(self.type(value).shape, len(order)))
        more = len(order) - self.type(value).rank
        for known in self.orders(value):
            there = (*range(more), *(more + axis for axis in known))
            step = tuple(there.index(axis) for axis in order)
            if keeps_order(step, permuted(shape, there)):
                return True
        return False

    def inner_values(self) -> Iterator[Port]:
        """What is computed, by each of the tensors that it is in."""
        for value, forms in self._forms.items():
            type_ = self.type(value)
            if value in self.graph.constants or type_.dtype not in ELEMENTS:
                continue
            for order, tensor in forms.items():
                name = self.names.get(tensor, tensor)
                yield Port(name, ELEMENTS[type_.dtype], permuted(type_.shape, order))

    def assume(self, value: str) -> None:
        """Lets a value be there that could not be written."""
        self._forms[value] = {identity(self.type(value).rank): self.fresh(value)}

    def _origin(self, value: str) -> tuple[str, Order]:
        return self._origins.get(value, (value, identity(self.type(value).rank)))

    def _enter(self, value: str, tensor: str) -> None:
        """Lets a tensor that comes from outside be a value, or what that is stored as."""
        plain = identity(self.type(value).rank)
        stored = self.stored.get(value)
        if stored is not None:
            self.title, self._integers[value] = value, (tensor, plain)
            tensor = read_stored(self, tensor, stored)
        self._forms[value] = {plain: tensor}

    def _stored_tensor(self, value: str) -> str:
        """What a value is stored as, in its own order of axes."""
        origin, own = self._origin(value)
        tensor, order = self._integers[origin]
        wanted = tuple(order.index(axis) for axis in own)
        moves = wanted != identity(len(wanted))
        return self.add("Transpose", tensor, perm=wanted) if moves else tensor

    def _constant(self, name: str, order: Order) -> str:
        return self._kept(name, self.graph.constants[name], order)

    def _kept(self, name: str, array: np.ndarray, order: Order) -> str:
        stored = self.stored.get(name)
        if stored is not None and is_widened(stored):
            return stored_constant(self, name, array, stored, order)
        turned = array.reshape(full_rank(array.shape, len(order))).transpose(order)
        return self.constant(np.ascontiguousarray(turned).reshape(turned.shape), name)

    def _turn(self, value: str, wanted: Order) -> str:
        """A transpose of what is there, or the reshape that does the same."""
        origin, _ = self._origin(value)
        shape = self.type(origin).shape
        steps = {
            order: tuple(order.index(axis) for axis in wanted) for order in self._forms[origin]
        }
        sizes = self.at_least(shape)
        cheap = [o for o, step in steps.items() if keeps_order(step, permuted(sizes, o))]
        source = next(iter(cheap or steps))
        tensor = self._forms[origin][source]
        if cheap:
            made = self.reshape(tensor, permuted(shape, source), permuted(shape, wanted))
        elif origin in self._integers:  # there is less to move of them
            stored, order = self._integers[origin]
            moved = self.add("Transpose", stored, perm=tuple(order.index(axis) for axis in wanted))
            made = read_stored(self, moved, self.stored[origin])
        else:
            made = self.add("Transpose", tensor, perm=steps[source])
        plain = wanted == identity(len(wanted))
        self.call(made, origin if plain else f"{origin}/transposed")
        return made
