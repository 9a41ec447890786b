"""What it costs to run a chain of nodes as one kernel or as several: who goes first in a race, and
what is taken without one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fourfold.device import DeviceInfo
from fourfold.graph import Node
from fourfold.kernel.context import Target
from fourfold.kernels.conv.tile import WIDE
from fourfold.types import TensorType

PRODUCTS = ("conv2d", "fully_connected")
CPU_CHANNELS = 32  # that a work-item of a CPU makes at once
GPU_CHANNELS = 4
MOST_LOST = 2.0  # transitions from one kernel to the next


@dataclass(frozen=True)
class Rates:
    """In clocks of a GPU, or in nanoseconds of a CPU: the bytes of pixels and of weights that one
    unit reads in each, what a kernel costs beside that, and the transition from one to the next.
    """

    pixels: float
    weights: float
    kernel: float
    transition: float


def can_chain(target: Target) -> bool:
    """Whether a kernel can hold what is between its parts: in local memory, or where a work-item
    walks alone, in a private array.
    """
    device, able = target.device, target.capabilities
    alone = device.is_cpu or device.max_work_group == 1
    shared = able.local_memory and device.local_memory > 0
    return able.private_arrays and WIDE in able.widths if alone else shared


def rates(device: DeviceInfo) -> Rates:
    """A rough fit to some sizes on PoCL. For GPUs a guess, but for the transition on an H200."""
    if device.is_cpu:
        return Rates(60.0, 30.0, 50.0, 500.0)
    if device.resident:
        return Rates(64.0, 64.0, 800.0, 2700.0)
    return Rates(32.0, 32.0, 1000.0, 10_000.0)


def cost(
    nodes: Sequence[Node], types: Mapping[str, TensorType], apart: int, device: DeviceInfo
) -> float:
    """What nodes cost of which the first `apart` run by themselves, the others as one kernel."""
    rate, total, kernels = rates(device), 0.0, float(apart < len(nodes))
    for number, node in enumerate(nodes):
        if node.op == "reshape":
            continue
        alone = number < apart
        units = _units(node, types, device) if alone else 1
        total += rate.kernel + _reading(node, types, rate) / units
        kernels += alone
    return total + kernels * rate.transition


def forms(nodes: Sequence[Node], types: Mapping[str, TensorType], device: DeviceInfo) -> list[int]:
    """How many of the nodes to run by themselves, before the others are one kernel: the best
    first. Fewer than two make no chain.
    """
    kernels = [number for number, node in enumerate(nodes) if node.op != "reshape"]
    counts = [*kernels[:-1], len(nodes)]
    return sorted(counts, key=lambda count: cost(nodes, types, count, device))


def is_heavy(node: Node, types: Mapping[str, TensorType], device: DeviceInfo) -> bool:
    """Whether a node loses more than it could gain if one unit does it all."""
    if node.op == "reshape":
        return False
    rate, units = rates(device), _units(node, types, device)
    return _reading(node, types, rate) * (1 - 1 / units) > MOST_LOST * rate.transition


def _reading(node: Node, types: Mapping[str, TensorType], rate: Rates) -> float:
    """How long one unit reads what the node reads most of."""
    if node.op in PRODUCTS:
        return types[str(node.inputs[1])].bytes / rate.weights
    return types[str(node.inputs[0])].bytes / rate.pixels


def _units(node: Node, types: Mapping[str, TensorType], device: DeviceInfo) -> int:
    """How many units share the work if the node runs alone; a result of no pixels has no work, but
    its kernel runs somewhere.
    """
    return max(1, min(_shares(node, types, device), device.compute_units))


def _shares(node: Node, types: Mapping[str, TensorType], device: DeviceInfo) -> int:
    """Among how many units the work of a node can be shared."""
    output = types[node.outputs[0]]
    if node.op == "softmax":
        return output.pixels
    if node.op == "mean":
        return output.pixels * output.slices
    channels = CPU_CHANNELS if device.is_cpu else GPU_CHANNELS
    return output.pixels * -(-output.channels // channels)
