"""WrittenValues: the values of a graph as tensors of an ONNX file.

A value may be in the file in several axis orders: convolutions read and write channels first, other
operators use any available order. A Transpose is only written if an order is read that does not
exist yet; transposes of the graph itself only rename axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from fourfold.formats.onnx.schema import ELEMENTS
from fourfold.formats.onnx.write_graph.operator_list import (
    OperatorList,
    Port,
    element_of,
    stored_initializer,
    stored_numbers,
)
from fourfold.formats.rule_table import Unconvertible
from fourfold.formats.writable import StoredAs, WritableModel
from fourfold.ops.base.axis_orders import Order, compose_orders, keeps_order, pad_rank, permuted
from fourfold.types import OPEN, DType, Quantization, Shape, TensorType

GRIDS = frozenset({DType.I8, DType.U8, DType.I16, DType.U16})
_WITHOUT_POINT = frozenset({DType.I32, DType.I4})  # types whose zero point is always zero
_WIDENED = GRIDS | _WITHOUT_POINT  # integer types that can be dequantized


@dataclass(frozen=True)
class Grid:
    """Scale and zero point of quantized values, as constants of the file."""

    scale: str
    zero_point: str | None
    axis: int

    @staticmethod
    def of(file: OperatorList, stored: StoredAs, quantization: Quantization) -> Grid:
        scales, points = quantization.scale, quantization.zero_point
        if quantization.axis is None:
            scales, points = scales[0], points[0]  # type: ignore[assignment]
        scale = file.constant(np.asarray(scales, np.float32))
        axis = 1 if quantization.axis is None else quantization.axis
        if stored.dtype in _WITHOUT_POINT:
            return Grid(scale, None, axis)
        return Grid(scale, file.constant(np.asarray(points, stored.dtype.numpy)), axis)


def is_widened(stored: StoredAs) -> bool:
    """Return True if ONNX can store a constant this way; int64 constants stay floats."""
    return stored.quantization is None or stored.dtype in _WIDENED


def read_stored(file: OperatorList, tensor: str, stored: StoredAs) -> str:
    """Return the real numbers of a quantized or float16 tensor."""
    if stored.quantization is None:
        return file.add("Cast", tensor, to=element_of(DType.F32))
    grid = Grid.of(file, stored, stored.quantization)
    return file.add("DequantizeLinear", tensor, grid.scale, grid.zero_point, axis=grid.axis)


def store(file: OperatorList, tensor: str, stored: StoredAs) -> str:
    """Quantize real numbers, or cast them to float16."""
    if stored.quantization is None:
        return file.add("Cast", tensor, to=element_of(stored.dtype))
    if stored.dtype not in GRIDS:
        raise Unconvertible(f"ONNX cannot quantize values to {stored.dtype.value}")
    grid = Grid.of(file, stored, stored.quantization)
    return file.add("QuantizeLinear", tensor, grid.scale, grid.zero_point, axis=grid.axis)


def stored_constant(
    file: OperatorList, name: str, array: np.ndarray, stored: StoredAs, order: Order
) -> str:
    """Add a quantized or float16 constant in an axis order, and the operator that widens it."""
    shape = pad_rank(array.shape, len(order))
    grid = stored.quantization
    if grid is None:
        numbers = array.astype(stored.dtype.numpy)
    else:
        numbers = stored_numbers(array, stored.dtype, grid)
        if grid.axis is not None:
            axis = grid.axis + len(order) - array.ndim
            grid = replace(grid, axis=order.index(axis))
    turned = np.array(numbers.reshape(shape).transpose(order), order="C")
    initializer = file.fresh(f"{name}/{stored.dtype.value}")
    file.initializers[initializer] = stored_initializer(turned, stored.dtype)
    widened = read_stored(file, initializer, replace(stored, quantization=grid))
    file.call(widened, name)
    return widened


def identity(rank: int) -> Order:
    return tuple(range(rank))


def channels_first(rank: int) -> Order:
    """Return the axis order in which ONNX's image layers read [N, ..., C]."""
    return (0, rank - 1, *range(1, rank - 1))


class WrittenValues(OperatorList):
    """Maps values of the graph to tensors, by axis order."""

    def __init__(self, model: WritableModel) -> None:
        super().__init__()
        self.graph, self.stored = model.graph, model.stored
        self._forms: dict[str, dict[Order, str]] = {}
        self._origins: dict[str, tuple[str, Order]] = {}  # values that are transposes of others
        self._integers: dict[str, tuple[str, Order]] = {}  # quantized or float16 tensors of values
        self.open_batch = any(sizes[:1] == (OPEN,) for sizes in model.open_sizes)

    def type(self, value: str | None) -> TensorType:
        return self.graph.types[str(value)]

    def read(self, value: str | None, order: Order | None = None) -> str:
        """Return the tensor of a value in an axis order; the default is its own order."""
        name = str(value)
        target = identity(self.type(name).rank) if order is None else order
        origin, own = self._origin(name)
        target = compose_orders(own, target)
        forms = self._forms.setdefault(origin, {})
        if target not in forms:
            constant = origin in self.graph.constants
            forms[target] = self._constant(origin, target) if constant else self._turn(name, target)
        return forms[target]

    def read_broadcast(self, value: str | None, order: Order) -> str:
        """Return a value for an operator whose result may have more axes, in the order of these."""
        name, rank = str(value), len(order)
        type_ = self.type(name)
        if type_.rank == rank:
            return self.read(name, order)
        if order == identity(rank) or (type_.elements == 1 and type_.rank <= 1):
            return self.read(name)
        if name in self.graph.constants:
            return self._constant(name, order)
        shape = pad_rank(type_.shape, rank)
        if keeps_order(order, self.at_least(shape)):
            return self.add("Reshape", self.read(name), self.integers(permuted(shape, order)))
        wide = self.add("Reshape", self.read(name), self.integers(shape))
        return self.add("Transpose", wide, perm=order)

    def reshape(self, tensor: str, shape: Shape, target: Shape) -> str:
        """Reshape a tensor; a dynamic batch stays dynamic."""
        follows = self.open_batch and shape[:1] == target[:1] and 0 not in target[1:]
        sizes = (OPEN, *target[1:]) if follows else target
        return self.add("Reshape", tensor, self.integers(sizes))

    def at_least(self, shape: Shape) -> Shape:
        """Return a shape for comparing axis orders: a dynamic batch of one counts as larger."""
        return (max(shape[0], 2), *shape[1:]) if self.open_batch and shape else shape

    def give(self, value: str, tensor: str, order: Order | None = None) -> None:
        """Define a value as a tensor, in an axis order."""
        order = identity(self.type(value).rank) if order is None else order
        plain = order == identity(len(order))
        stored = self.stored.get(value)
        if stored is not None:
            self._integers[value] = (store(self, tensor, stored), order)
            tensor = read_stored(self, self._integers[value][0], stored)
        self.call(tensor, value if plain else f"{value}/channels_first")
        self._forms.setdefault(value, {})[order] = tensor

    def rename(self, value: str, source: str, order: Order) -> None:
        """Define a value as a transpose of another one."""
        if value in self.stored and self.stored[value] != self.stored.get(source):
            back = tuple(order.index(axis) for axis in range(len(order)))
            best = self.best_order([source], len(order))
            self.give(value, self.read(source, best), compose_orders(back, best))
            return
        origin, own = self._origin(source)
        self._origins[value] = (origin, compose_orders(own, order))

    def orders(self, value: str) -> list[Order]:
        """Return the axis orders in which a value exists; [] for constants, which exist in any."""
        origin, own = self._origin(value)
        if origin in self.graph.constants:
            return []
        return [tuple(own.index(axis) for axis in order) for order in self._forms[origin]]

    def best_order(self, values: Iterable[str | None], rank: int) -> Order:
        """Return the axis order in which the fewest elements of these values must move."""
        names = [name for name in values if name is not None and self.orders(name)]
        full_orders = [order for name in names for order in self.orders(name) if len(order) == rank]
        candidates = dict.fromkeys((*full_orders, identity(rank)))

        def cost(order: Order) -> int:
            return sum(
                0 if self._is_near(name, order) else self.type(name).elements for name in names
            )

        return min(candidates, key=cost)

    def _is_near(self, value: str, order: Order) -> bool:
        """Return True if a value can be read in an axis order without moving elements."""
        shape = self.at_least(pad_rank(self.type(value).shape, len(order)))
        more = len(order) - self.type(value).rank
        for order_ in self.orders(value):
            extended = (*range(more), *(more + axis for axis in order_))
            step = tuple(extended.index(axis) for axis in order)
            if keeps_order(step, permuted(shape, extended)):
                return True
        return False

    def inner_values(self) -> Iterator[Port]:
        """Yield the tensors of all computed values."""
        for value, forms in self._forms.items():
            type_ = self.type(value)
            if value in self.graph.constants or type_.dtype not in ELEMENTS:
                continue
            for order, tensor in forms.items():
                name = self.names.get(tensor, tensor)
                yield Port(name, ELEMENTS[type_.dtype], permuted(type_.shape, order))

    def assume(self, value: str) -> None:
        """Define a value that could not be written, so that its readers can still be checked."""
        self._forms[value] = {identity(self.type(value).rank): self.fresh(value)}

    def _origin(self, value: str) -> tuple[str, Order]:
        return self._origins.get(value, (value, identity(self.type(value).rank)))

    def _enter(self, value: str, tensor: str) -> None:
        """Define an input tensor as a value, or as its stored form."""
        plain = identity(self.type(value).rank)
        stored = self.stored.get(value)
        if stored is not None:
            self.title, self._integers[value] = value, (tensor, plain)
            tensor = read_stored(self, tensor, stored)
        self._forms[value] = {plain: tensor}

    def _stored_tensor(self, value: str) -> str:
        """Return the stored form of a value, in its own axis order."""
        origin, own = self._origin(value)
        tensor, order = self._integers[origin]
        target = tuple(order.index(axis) for axis in own)
        moves = target != identity(len(target))
        return self.add("Transpose", tensor, perm=target) if moves else tensor

    def _constant(self, name: str, order: Order) -> str:
        return self._kept(name, self.graph.constants[name], order)

    def _kept(self, name: str, array: np.ndarray, order: Order) -> str:
        stored = self.stored.get(name)
        if stored is not None and is_widened(stored):
            return stored_constant(self, name, array, stored, order)
        turned = array.reshape(pad_rank(array.shape, len(order))).transpose(order)
        return self.constant(np.ascontiguousarray(turned).reshape(turned.shape), name)

    def _turn(self, value: str, target: Order) -> str:
        """Return a transpose of an existing tensor, or an equivalent reshape."""
        origin, _ = self._origin(value)
        shape = self.type(origin).shape
        steps = {
            order: tuple(order.index(axis) for axis in target) for order in self._forms[origin]
        }
        sizes = self.at_least(shape)
        cheap = [o for o, step in steps.items() if keeps_order(step, permuted(sizes, o))]
        source = next(iter(cheap or steps))
        tensor = self._forms[origin][source]
        if cheap:
            turned = self.reshape(tensor, permuted(shape, source), permuted(shape, target))
        elif origin in self._integers:  # quantized values have fewer bytes to move
            stored, order = self._integers[origin]
            moved = self.add("Transpose", stored, perm=tuple(order.index(axis) for axis in target))
            turned = read_stored(self, moved, self.stored[origin])
        else:
            turned = self.add("Transpose", tensor, perm=steps[source])
        plain = target == identity(len(target))
        self.call(turned, origin if plain else f"{origin}/transposed")
        return turned
