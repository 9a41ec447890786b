"""A mean over the pixels, small matrix products and a softmax in one kernel.

A work-group computes one picture and keeps intermediate values in local memory. On a CPU it is one
work-item with private memory. A cost model decides whether a chain runs as one kernel or as
several, and orders the candidates for tuning.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from fourfold.codegen.broadcast import mask_beyond
from fourfold.codegen.combine import Combine, Team, combine_lanes, exchange, team_ids
from fourfold.codegen.context import NodeContext, Target
from fourfold.codegen.expression import Expression, Pointer, const, exp, load, maximum, widen
from fourfold.codegen.kernel import Variable
from fourfold.codegen.location import Stored
from fourfold.codegen.view import View
from fourfold.device import DeviceInfo
from fourfold.graph import Node
from fourfold.ops.kernels.conv.tile import CPU_VECTOR_CHANNELS, ConvTile
from fourfold.ops.kernels.conv.tiled import pack_bias, pack_weights
from fourfold.ops.kernels.joined import Memories, PartContext, Parts
from fourfold.ops.kernels.reduce import PARALLEL_TOTALS, add_run, reduce_lanes, start_value
from fourfold.types import DType, TensorType

PRODUCTS = ("conv2d", "fully_connected")
CPU_CHANNELS = 32  # that a CPU work-item computes at once
GPU_CHANNELS = 4
MAX_LOST_TRANSITIONS = 2.0  # in transitions between kernels


@dataclass(frozen=True)
class Rates:
    """Cost rates of a device, in clocks of a GPU or nanoseconds of a CPU.

    `pixels` and `weights` are the bytes that one unit reads per clock or nanosecond, `kernel` is
    the fixed cost of a node and `transition` the cost of going from one kernel to the next.
    """

    pixels: float
    weights: float
    kernel: float
    transition: float


def can_chain(target: Target) -> bool:
    """Return True if a kernel can hold the intermediate values of a chain.

    They are in local memory, or in a private array where a work-item runs alone.
    """
    device, capabilities = target.device, target.capabilities
    alone = device.is_cpu or device.max_work_group == 1
    shared = capabilities.local_memory and device.local_memory > 0
    return (
        capabilities.private_arrays and CPU_VECTOR_CHANNELS in capabilities.widths
        if alone
        else shared
    )


def chain_rates(device: DeviceInfo) -> Rates:
    """Return a rough fit to measurements with PoCL, or an estimate for GPUs.

    The transition of a resident device was measured on an H200.
    """
    if device.is_cpu:
        return Rates(60.0, 30.0, 50.0, 500.0)
    if device.resident:
        return Rates(64.0, 64.0, 800.0, 2700.0)
    return Rates(32.0, 32.0, 1000.0, 10_000.0)


def chain_cost(
    nodes: Sequence[Node], types: Mapping[str, TensorType], apart: int, device: DeviceInfo
) -> float:
    """Estimate the cost if the first `apart` nodes run separately and the others as one kernel."""
    rate, total, kernels = chain_rates(device), 0.0, float(apart < len(nodes))
    for number, node in enumerate(nodes):
        if node.op == "reshape":
            continue
        alone = number < apart
        units = _units(node, types, device) if alone else 1
        total += rate.kernel + _reading(node, types, rate) / units
        kernels += alone
    return total + kernels * rate.transition


def forms(nodes: Sequence[Node], types: Mapping[str, TensorType], device: DeviceInfo) -> list[int]:
    """Return how many leading nodes to run separately, the cheapest count first.

    The remaining nodes are one kernel; fewer than two make no chain.
    """
    kernels = [number for number, node in enumerate(nodes) if node.op != "reshape"]
    counts = [*kernels[:-1], len(nodes)]
    return sorted(counts, key=lambda count: chain_cost(nodes, types, count, device))


def is_heavy(node: Node, types: Mapping[str, TensorType], device: DeviceInfo) -> bool:
    """Return True if running the node on one unit costs more than a chain could save."""
    if node.op == "reshape":
        return False
    rate, units = chain_rates(device), _units(node, types, device)
    return _reading(node, types, rate) * (1 - 1 / units) > MAX_LOST_TRANSITIONS * rate.transition


def _reading(node: Node, types: Mapping[str, TensorType], rate: Rates) -> float:
    """Return how long one unit takes to read the larger input of the node."""
    if node.op in PRODUCTS:
        return types[str(node.inputs[1])].bytes / rate.weights
    return types[str(node.inputs[0])].bytes / rate.pixels


def _units(node: Node, types: Mapping[str, TensorType], device: DeviceInfo) -> int:
    """Return how many units share the work if the node runs alone, at least one."""
    return max(1, min(_shares(node, types, device), device.compute_units))


def _shares(node: Node, types: Mapping[str, TensorType], device: DeviceInfo) -> int:
    """Return among how many units the work of a node could be divided."""
    output = types[node.outputs[0]]
    if node.op == "softmax":
        return output.pixels
    if node.op == "mean":
        return output.pixels * output.slices
    channels = CPU_CHANNELS if device.is_cpu else GPU_CHANNELS
    return output.pixels * -(-output.channels // channels)


ITEMS = 256
MIN_HELD_SLICES = 64  # slices; one memory size for most kernels lets them share a text


class PartViews(NamedTuple):
    """The input and output views of a part, and the pixel in each."""

    source: View
    source_pixel: Expression
    target: View
    target_pixel: Expression


class ResultSlot(NamedTuple):
    """One result: its number, and the work-item's place in the team that computes it.

    `lane` is the work-item's number within the team, `team` the size of the team. `exists` tells
    whether there is such a result, `ends` whether this work-item stores it.
    """

    number: Expression
    lane: Expression
    team: int
    exists: Expression
    ends: Expression


class Chain:
    """The kernel of all parts from `first` on; `memories` has the results of earlier parts."""

    def __init__(self, parts: Parts, first: int, memories: Memories) -> None:
        self.parts, self.context = parts, parts.context
        self.kernel = kernel = self.context.kernel("chain")
        self.items = (
            1 if self.context.device.is_cpu else min(ITEMS, self.context.device.max_work_group)
        )
        self.row, self.me = team_ids(
            kernel, self.context.device, self.context.output.pixels, self.items
        )
        self.shared: Pointer | None = None
        self.memories, self.types = dict(memories), dict(parts.types)
        for node in parts.nodes[first:]:
            self._write(node)

    def _write(self, node: Node) -> None:
        name, read = node.outputs[0], str(node.inputs[0])
        inner = name in self.parts.stored
        if inner:
            self.types[name] = _single_picture(self.types[name])
        if node.op == "reshape":
            self.memories[name] = self.memories[read]
            return
        if inner:
            self.memories[name] = (
                self._intermediate_memory(self.types[name]),
                Stored(self._stored_type),
            )
        part = PartContext(self.context, node, self.types, self.memories)
        from_held = isinstance(self.memories.get(read, (None,))[0], Pointer)
        views = PartViews(
            part.read(self.kernel, 0),
            const(0) if from_held else self.row,
            part.write(self.kernel),
            const(0) if inner else self.row,
        )
        {"mean": self._mean, "softmax": self._softmax}.get(node.op, self._product)(part, views)
        self._wait_for_group()

    @property
    def _stored_type(self) -> DType:
        return DType.F16 if self.kernel.real == "half" else DType.F32

    def _intermediate_memory(self, type_: TensorType) -> Pointer:
        """Return memory for the value between two parts."""
        slices = max(MIN_HELD_SLICES, 1 << (type_.slices - 1).bit_length())
        if self.items == 1:
            return self.kernel.private_array("held", self._stored_type, slices * 4)
        return self.kernel.local_array("held", self.kernel.real, 4, slices)

    def _mean(self, part: NodeContext, views: PartViews) -> None:
        """Write the mean of all pixels of a picture."""
        kernel, count = self.kernel, part.input.pixels // part.input.shape[0]
        share = kernel.number("share", 1.0 / count)
        with self._result_slots(views.source.slices, part.input.slices, count) as slot:
            total = kernel.variable(start_value(views.source.kind, 0.0), "total")
            with kernel.when(slot.exists):
                self._add_pixels(total, views, kernel.size("picture", count), slot)
            self._combine(total, slot.team, operator.add)
            with kernel.when(slot.ends):
                views.target.store(views.target_pixel, slot.number, total * share)

    def _add_pixels(
        self, total: Variable, views: PartViews, pixels: Expression, slot: ResultSlot
    ) -> None:
        """Add every `team`-th pixel of a picture, from the lane's on, to a sum."""
        kernel = self.kernel
        first = kernel.let(views.source_pixel * pixels, "first")

        def value(step: Expression) -> Expression:
            return views.source.load(first + step, slot.number)

        if self.items == 1:
            add_run(kernel, total, operator.add, pixels, value)
        else:
            with kernel.loop(pixels, slot.lane, slot.team, title="p") as step:
                kernel.add(total, value(step))

    def _product(self, part: NodeContext, views: PartViews) -> None:
        """Write a matrix product over the channels of a pixel."""
        kernel, real = self.kernel, self.kernel.real
        weights, bias = part.array(1), part.array(2)
        assert weights is not None
        flat = weights.reshape(weights.shape[0], 1, -1)
        tile = _product_tile(self.items, flat.shape[0])
        factors = part.weights(kernel, "weights", pack_weights(flat, tile))
        offsets = part.packed(kernel, "bias", pack_bias(bias, flat.shape[0], tile))
        count = -(-flat.shape[0] // (tile.width * tile.groups))
        units = kernel.size(f"{views.target.pointer.name}_units", count)
        with self._result_slots(units, count, part.input.slices) as slot:
            group = kernel.let(slot.number * tile.groups, "group")
            zero = const(0.0, real, tile.width)
            sums = [kernel.variable(zero, "sum") for _ in range(tile.groups)]
            with kernel.when(slot.exists):
                self._add_products(sums, views, factors, group, slot)
            for number, sum_ in enumerate(sums):
                self._combine(sum_, slot.team, operator.add)
                with kernel.when(slot.ends):
                    index = kernel.let(group + number, "place")
                    result = kernel.let(sum_ + load(offsets, index, real, tile.width), "result")
                    self._store(views, index, result)

    def _add_products(
        self,
        sums: list[Variable],
        views: PartViews,
        factors: Pointer,
        group: Expression,
        slot: ResultSlot,
    ) -> None:
        kernel, source, width = self.kernel, views.source, sums[0].width
        rows = [
            kernel.let((group + number) * source.slices * 4, "row") for number in range(len(sums))
        ]
        with kernel.loop(source.slices, slot.lane, slot.team, title="slice") as slice_:
            for number, element in enumerate(self._elements(views, slice_)):
                wide = widen(kernel.let(element, "x"), width)
                for sum_, row in zip(sums, rows, strict=True):
                    factor = load(factors, row + slice_ * 4 + number, kernel.real, width)
                    kernel.add(sum_, wide * factor)

    def _elements(self, views: PartViews, slice_: Expression) -> list[Expression]:
        """Return four channels one by one. A CPU loads each when it is needed."""
        source, pixel = views.source, views.source_pixel
        if source.whole and self.items == 1:
            return [source.lane(pixel, slice_, number) for number in range(4)]
        value = source.load(pixel, slice_)
        return [value.lane(number) for number in range(4)]

    def _store(self, views: PartViews, accumulator: Expression, result: Expression) -> None:
        """Store one accumulator as slices of four channels."""
        slices = result.width // 4
        for number in range(slices):
            slice_ = self.kernel.let(accumulator * slices + number, "slice")
            with self.kernel.when(slice_ < views.target.slices):
                views.target.store(views.target_pixel, slice_, result.part(number, 4))

    def _softmax(self, part: NodeContext, views: PartViews) -> None:
        """Write exp(x - max(x)) divided by its sum."""
        kernel, source = self.kernel, views.source
        beta = const(part.attributes.beta, kernel.real)  # type: ignore[attr-defined]
        lowest, zero = start_value(source.kind, float("-inf")), start_value(source.kind, 0.0)

        def value(slice_: Expression) -> Expression:
            return source.load(views.source_pixel, slice_)

        most = kernel.variable(lowest, "most")
        with kernel.loop(source.slices, self.me, self.items, title="slice") as slice_:
            kernel.set(most, maximum(most, mask_beyond(source, value(slice_), slice_, lowest)))
        self._combine(most, self.items, maximum)
        largest = kernel.let(reduce_lanes(most, maximum), "largest")
        total = kernel.variable(zero, "total")
        with kernel.loop(source.slices, self.me, self.items, title="slice") as slice_:
            power = kernel.let(exp((value(slice_) - largest) * beta), "power")
            kernel.add(total, mask_beyond(source, power, slice_, zero))
        self._combine(total, self.items, operator.add)
        share = kernel.let(1.0 / reduce_lanes(total, operator.add), "share")
        with kernel.loop(source.slices, self.me, self.items, title="slice") as slice_:
            power = exp((value(slice_) - largest) * beta)
            views.target.store(views.target_pixel, slice_, power * share)

    @contextmanager
    def _result_slots(self, size: Expression, results: int, steps: int) -> Iterator[ResultSlot]:
        """Yield the slot of each result; `steps` is the length of its reduction.

        All work-items run the same number of turns, so that barriers stay in step.
        """
        kernel, team = self.kernel, 1
        while team * 2 * results <= self.items and team * 2 <= steps:
            team *= 2
        with kernel.loop(size, 0, self.items // team, title="turn") as slot:
            if self.items == 1:
                yield ResultSlot(slot, const(0), 1, const(True), const(True))
                return
            number = kernel.let(slot + self.me // team, "number")
            lane, exists = kernel.let(self.me % team, "lane"), number < size
            yield ResultSlot(number, lane, team, exists, exists & lane.equals(0))

    def _combine(self, value: Variable, team: int, combine: Combine) -> None:
        """Combine a variable over each team; all work-items get the result."""
        if team == 1:
            return
        kernel = self.kernel
        lane = kernel.let(self.me % team, "lane")
        left = exchange(kernel, [value], Team(lane, team), combine)
        if left.is_done:
            return
        if self.shared is None:
            self.shared = kernel.local_array("shared", value.kind, value.width, self.items)
        shelf = kernel.let(self.me - lane, "shelf")
        combine_lanes(kernel, self.shared, [(shelf, value)], left, combine)

    def _wait_for_group(self) -> None:
        """Make writes visible to the group, and let it overwrite what was read."""
        if self.items > 1:
            self.kernel.barrier()


def _product_tile(items: int, outputs: int) -> ConvTile:
    """Return the tile: several vectors of eight on a CPU, four channels on a GPU."""
    if items > 1:
        return ConvTile(1, 1, 4)
    vectors = max(1, -(-outputs // CPU_VECTOR_CHANNELS))
    groups = min(PARALLEL_TOTALS, 1 << (vectors - 1).bit_length())
    return ConvTile(1, groups, CPU_VECTOR_CHANNELS)


def _single_picture(type_: TensorType) -> TensorType:
    """Return the type of the same value for one picture."""
    return type_.with_shape(*(1,) * (type_.rank - 1), type_.channels)
