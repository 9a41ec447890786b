"""What a graph and a device make of the precision that was asked for."""

from __future__ import annotations

from dataclasses import replace

from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.kernel.context import KernelOptions
from fourfold.kernel.location import storage_elements
from fourfold.lower.join_chains import join_chains
from fourfold.lower.join_separable import join_separable
from fourfold.lower.locations import choose_locations
from fourfold.lower.storage import all_attributes
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.ops.quantize import Quantize

SMALL_ARENA = 1 << 22  # bytes
MUCH_CACHE = 24 << 20  # bytes: half of what GPUs with matrix units have


def specialise_options(graph: Graph, options: KernelOptions, device: DeviceInfo) -> KernelOptions:
    """The options as the graph and the device need them.

    Halves hold the steps of quantised numbers, but not their sums: those are made in floats. What
    is small stays in full precision; where matrix units want halves, only if all of it is small.
    """
    if options.precision == "mixed":
        peak = peak_bytes(graph)
        small = peak <= SMALL_ARENA
        spares = small or not device.matrix_units
        # Weights that are read once a run drive out values, which would be kept otherwise.
        once = device.matrix_units and weight_bytes(graph, options) > MUCH_CACHE >= peak
        options = replace(options, keeps_small=spares, keeps_values=small, streams=once)
    counts = has_quantised_steps(graph)
    # Matrix units want halves, and are faster than dot products.
    bytes_ = counts and bool(device.dot_products) and not device.matrix_units
    options = replace(options, counts_bytes=bytes_)
    return replace(options, precision="mixed") if counts and options.real == "half" else options


def has_quantised_steps(graph: Graph) -> bool:
    """Whether there are numbers that are rounded to steps, as those of quantised models are."""
    return any(isinstance(item, FakeQuantize | Quantize) for item in all_attributes(graph))


def weight_bytes(graph: Graph, options: KernelOptions) -> int:
    """About what all constants take up."""
    return sum(array.size for array in graph.constants.values()) * options.storage.size


def peak_bytes(graph: Graph) -> int:
    """The most that values between kernels take up at once in full precision."""
    locations = choose_locations(graph, KernelOptions())
    ports = {*graph.inputs, *graph.outputs}
    spans: dict[str, list[int]] = {}
    for number, node in enumerate(graph.nodes):
        for name in (*node.reads, *node.outputs):
            if name in locations and locations[name].root not in ports:
                spans.setdefault(locations[name].root, []).append(number)
    changes = [0] * (len(graph.nodes) + 1)
    for root, uses in spans.items():
        elements = storage_elements(locations[root].layout, graph.types[root])
        changes[min(uses)] += elements * locations[root].dtype.size
        changes[max(uses) + 1] -= elements * locations[root].dtype.size
    peak = alive = 0
    for change in changes:
        alive += change
        peak = max(peak, alive)
    return peak


def specialise_graph(graph: Graph, device: DeviceInfo, options: KernelOptions) -> Graph:
    """The graph in the form that the device likes best."""
    return join_chains(join_separable(graph, device, options), device, options)
