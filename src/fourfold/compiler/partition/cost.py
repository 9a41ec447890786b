"""Estimates the cost of running a unit in each target, from measurements if available.

seconds = max(arithmetic / speed, bytes / bandwidth) + a fixed cost per node. The speeds are coarse
facts of a kind of device; they only have to distinguish large layers from small ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fourfold.compiler.partition.partitions import Partition
from fourfold.device import DeviceInfo
from fourfold.formats.units import Unit
from fourfold.graph import Graph, Node
from fourfold.ops.base.window import Pool2d
from fourfold.plan.targets import GPU, NUMPY

_WEIGHTED = {"conv2d", "depthwise_conv2d", "fully_connected", "conv3d"}
_VIEWS = {"reshape", "identity", "slice", "concat"}


@dataclass(frozen=True)
class TargetRates:
    """Speed of a target: operations and bytes per second, seconds per node and per part."""

    flops: float
    bytes: float
    node: float
    part: float
    transfer: float  # bytes per second to and from the caller's arrays


def device_rates(device: DeviceInfo) -> TargetRates:
    """Return what a device of this kind and size reaches in practice, about a third of its peak."""
    units = device.units
    if device.is_cpu:
        return TargetRates(units * 20e9, 30e9, 4e-6, 20e-6, 10e9)
    flops = max(units, 1) * 40e9
    if device.unified_memory:
        return TargetRates(flops, 40e9, 6e-6, 60e-6, 10e9)
    return TargetRates(flops, 300e9, 6e-6, 60e-6, 8e9)


def cpu_rates(threads: int) -> TargetRates:
    """Return the rates of a CPU runtime with this many threads; runtimes are about equal."""
    return TargetRates(threads * 20e9, 30e9, 1e-6, 10e-6, 10e9)


NUMPY_RATES = TargetRates(1e9, 2e9, 30e-6, 5e-6, 1e15)


@dataclass(frozen=True)
class Costs:
    """Seconds of units and parts. `measured` has seconds of units by target and name."""

    graph: Graph
    rates: Mapping[str, TargetRates]
    measured: Mapping[tuple[str, str], float] = field(default_factory=dict)
    _estimates: dict[tuple[str, str], float] = field(default_factory=dict, init=False, repr=False)

    @staticmethod
    def of(graph: Graph, device: DeviceInfo, threads: int, engine: str | None) -> Costs:
        """Return estimates for a device, NumPy, and the CPU engine of the model's format."""
        rates = {GPU: device_rates(device), NUMPY: NUMPY_RATES}
        return Costs(graph, rates if engine is None else {**rates, engine: cpu_rates(threads)})

    def unit(self, unit: Unit, target: str) -> float:
        """Return the seconds of a unit, without transfers of its values."""
        key = (target, unit.name)
        if key in self.measured:
            return self.measured[key]
        if key not in self._estimates:
            self._estimates[key] = self._estimate(unit, target)
        return self._estimates[key]

    def _estimate(self, unit: Unit, target: str) -> float:
        rates = self.rates[target]
        work = sum(flops(self.graph, node) for node in unit.nodes)
        moved = self._bytes({*unit.reads, *unit.writes, *self._weights(unit)})
        nodes = sum(node.op not in _VIEWS for node in unit.nodes)
        nodes = min(nodes, 1)  # further nodes of the same operator are fused onto the first
        return max(work / rates.flops, moved / rates.bytes) + nodes * rates.node

    def transfer(self, part: Partition) -> float:
        """Return the seconds to transfer a part's values in and out, and to wait for it."""
        rates = self.rates[part.target]
        return self._bytes({*part.inputs, *part.outputs}) / rates.transfer + rates.part

    def part(self, part: Partition) -> float:
        return sum(self.unit(unit, part.target) for unit in part.units) + self.transfer(part)

    def total(self, parts: Sequence[Partition]) -> float:
        return sum(self.part(part) for part in parts)

    def _weights(self, unit: Unit) -> Iterable[str]:
        return (v for node in unit.nodes for v in node.reads if v in self.graph.constants)

    def _bytes(self, values: Iterable[str]) -> int:
        types = (self.graph.types[value] for value in values if value in self.graph.types)
        return sum(type.bytes for type in types if type.dtype.has_numpy)


def flops(graph: Graph, node: Node) -> float:
    """Return the approximate number of additions and multiplications of a node."""
    if not node.outputs or not graph.types[node.outputs[0]].dtype.has_numpy:
        return 0.0
    output = graph.types[node.outputs[0]]
    inputs = [type for type in graph.input_types(node) if type is not None]
    tail_flops = output.elements * len(node.tail)
    if node.op in _WEIGHTED and len(inputs) > 1:
        return 2.0 * output.elements * inputs[1].elements / max(output.channels, 1) + tail_flops
    if node.op == "transpose_conv2d" and len(inputs) > 1:
        return (
            2.0 * inputs[0].elements * inputs[1].elements / max(inputs[0].channels, 1) + tail_flops
        )
    if node.op == "batch_matmul" and inputs:
        return 2.0 * output.elements * inputs[0].channels + tail_flops
    if isinstance(node.attributes, Pool2d):
        return float(output.elements * math.prod(node.attributes.filter) + tail_flops)
    return float(max([output.elements, *(type.elements for type in inputs)]) + tail_flops)
