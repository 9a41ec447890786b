"""Specialises a graph and the kernel options for a device and its language."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from fourfold.codegen.capabilities import Capabilities
from fourfold.codegen.context import KernelOptions, Target
from fourfold.codegen.language import Language, find_language, make_target
from fourfold.codegen.location import storage_elements
from fourfold.compiler.lower.half_range import values_beyond_half
from fourfold.compiler.lower.join_nodes import join_chains, join_separable
from fourfold.compiler.lower.locations import choose_locations
from fourfold.compiler.lower.storage import all_attributes
from fourfold.compiler.partition.cost import flops
from fourfold.device import DeviceInfo
from fourfold.graph import Graph, Node
from fourfold.ops.base import registry
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.ops.quantize import Quantize
from fourfold.types import DType

MAX_FP32_ARENA_BYTES = 1 << 22  # bytes; values below this stay in fp32
CACHE_BYTES = 24 << 20  # bytes: half the cache of GPUs with matrix units


class Specialised(NamedTuple):
    """A graph specialised for a device, and the target of its kernels."""

    graph: Graph
    target: Target
    language: Language


def specialise_for(graph: Graph, device: DeviceInfo, options: KernelOptions) -> Specialised:
    """Specialise the graph and the options for a device and its kernel language."""
    language = find_language(device.language)
    target = specialise_target(graph, make_target(language, device, options))
    return Specialised(specialise_graph(graph, target), target, language)


def specialise_target(graph: Graph, target: Target) -> Target:
    """Return the target with options adapted to the graph and the device.

    fp16 holds the steps of quantized numbers, but not their sums, nor the numbers of masks; these
    are computed in fp32, as is everything that fp16 would not speed up. Small tensors stay in fp32;
    if matrix units need fp16, only if all values together are small.
    """
    device, able = target.device, target.capabilities
    options = _supported_precision(target.options, able)
    counts = has_quantised_steps(graph)
    floats = counts or options.floats_as_fast
    if options.real == "half" and (floats or values_beyond_half(graph)):
        options = replace(options, precision="mixed")
    if options.precision == "mixed":
        peak = peak_bytes(graph)
        small = peak <= MAX_FP32_ARENA_BYTES
        spares = small or not device.matrix_units
        # Weights that are read once per run would evict values from the cache.
        once = device.matrix_units and weight_bytes(graph, options) > CACHE_BYTES >= peak
        options = replace(options, keeps_small=spares, keeps_values=small, streams=once)
    # Matrix units need fp16 and are faster than dot products.
    dots = bool(device.dot_products) and not device.matrix_units
    bytes_ = counts and dots and DType.U8 in able.storages
    return replace(target, options=replace(options, counts_bytes=bytes_))


def _supported_precision(options: KernelOptions, able: Capabilities) -> KernelOptions:
    """Raise the precision if the language does not support fp16."""
    if options.precision == "fp16" and "half" not in able.kinds:
        options = replace(options, precision="mixed")
    if options.precision == "mixed" and DType.F16 not in able.storages:
        options = replace(options, precision="fp32")
    steps = {DType.I16, DType.U16} <= able.storages
    return options if steps else replace(options, counts_steps=False)


def has_quantised_steps(graph: Graph) -> bool:
    """Return whether numbers are rounded to steps, as in quantized models."""
    return any(isinstance(item, FakeQuantize | Quantize) for item in all_attributes(graph))


def weight_bytes(graph: Graph, options: KernelOptions) -> int:
    """Return the approximate size of all constants."""
    return sum(array.size for array in graph.constants.values()) * options.storage.size


def peak_bytes(graph: Graph) -> int:
    """Return the peak size of values between kernels in fp32."""
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


def specialise_graph(graph: Graph, target: Target) -> Graph:
    """Return the graph in the form that is fastest on the device."""
    return join_chains(join_separable(graph, target), target)


MIN_FLOPS_PER_ELEMENT = 8  # per number that is read or written


def is_memory_bound(graph: Graph) -> bool:
    """Return whether a model is limited by memory bandwidth, so that fp16 arithmetic gains nothing.

    Networks that multiply one row by a matrix, such as recurrent ones, read a weight for each
    product. GPUs, including those of phones, do ten or more multiplications while their memory
    delivers one fp16 value.
    """
    moved = sum(_moved(graph, node) for node in graph.nodes)
    work = sum(flops(graph, node) for node in graph.nodes)
    return work < MIN_FLOPS_PER_ELEMENT * moved


def _moved(graph: Graph, node: Node) -> int:
    """Return the count of numbers that a node reads and writes; 0 for a view."""
    if registry()[node.op].view is not None and not node.tail:
        return 0
    return sum(graph.types[name].elements for name in {*node.reads, *node.outputs})
