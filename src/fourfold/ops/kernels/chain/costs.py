"""Cost model for running a chain of nodes as one kernel or as several.

The costs order the candidates for tuning, and decide without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fourfold.codegen.context import Target
from fourfold.device import DeviceInfo
from fourfold.graph import Node
from fourfold.ops.kernels.conv.tile import CPU_VECTOR_CHANNELS
from fourfold.types import TensorType

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
