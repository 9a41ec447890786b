"""From nodes to kernels: picks a variant for each node and lets it write its kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from fourfold.errors import Refusal, UnsupportedError
from fourfold.graph import Graph, Node
from fourfold.kernel.context import NodeContext, Target
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.location import (
    Layout,
    Location,
    Stored,
    own_location,
    region_location,
    reshaped_location,
    slice_channels,
)
from fourfold.kernels.joined import tail_step
from fourfold.kernels.pointwise import byte_kernel, pointwise_kernel, refuses_bytes
from fourfold.lower.ratios import nodes_for_logarithms
from fourfold.op import Op, Variant
from fourfold.op.registry import registry
from fourfold.types import DType


@dataclass(frozen=True)
class Built:
    """A kernel of a node, before it is text."""

    kernel: Kernel
    node: Node


def constant_locations(graph: Graph) -> dict[str, Location]:
    """Constants that kernels read as tensors are kept in slices of four, in full precision."""
    return {
        name: own_location(name, Layout.SLICED, graph.types[name], Stored(graph.types[name].dtype))
        for name in graph.constants
    }


def constant_storage(array: np.ndarray) -> np.ndarray:
    return slice_channels(np.asarray(array))


def node_contexts(
    graph: Graph, locations: dict[str, Location], target: Target
) -> Iterator[NodeContext]:
    """One context for each node but those whose results have no elements: nothing makes these.

    What leads to a logarithm is computed in full precision, whatever was asked for.
    """
    known = {**constant_locations(graph), **locations}
    exact = replace(target, options=replace(target.options, precision="fp32"))
    in_full = nodes_for_logarithms(graph) if target != exact else frozenset()
    for node in graph.nodes:
        if not any(graph.types[name].elements for name in node.outputs):
            continue
        tail = tuple(tail_step(step) for step in node.tail)
        its = exact if node.outputs[0] in in_full else target
        yield NodeContext(node, graph.types, graph.constants, known, tail, its)


def variants_of(op: Op) -> tuple[Variant, ...]:
    """Every way to run an op, the preferred one first."""
    if op.pointwise is None:
        return op.variants
    pointwise = op.pointwise
    bytes_ = Variant(
        "bytes", lambda context: byte_kernel(context, op.name, pointwise), refuses_bytes
    )
    plain = Variant(op.name, lambda context: pointwise_kernel(context, op.name, pointwise))
    return (*op.variants, bytes_, plain)


@dataclass(frozen=True)
class KernelChoice:
    """The variant that runs a node, and the form its kernels take (None: the variant's own
    default).
    """

    variant: Variant
    choice: str | None = None

    def __str__(self) -> str:
        return f"{self.variant.name}: {self.choice or 'default'}"


def choose_kernel(context: NodeContext, choices: Mapping[str, str]) -> KernelChoice | Refusal:
    """The tuned way for what this node computes, else the first variant that takes and suits it; or
    why none does.
    """
    unusable = _unusable_types(context)
    reasons = [unusable] if unusable else []
    if not reasons:
        name, _, choice = choices.get(context.key, "").partition(": ")
        for variant in variants_of(registry()[context.node.op]):
            reason = _why_not(variant, context)
            if reason is not None:
                reasons.append(reason)
            elif variant.name == name or (not name and variant.suits(context)):
                return KernelChoice(variant, choice or None)
        if name:
            # The stored choice names a variant that is no more, or that refuses: decide anew.
            return choose_kernel(context, {})
    title = context.node.name or context.node.outputs[0]
    return Refusal(title, context.node.op, "; ".join(reasons) or "no kernel")


def _why_not(variant: Variant, context: NodeContext) -> str | None:
    if variant.buys_speed and context.options.saves_memory:
        return "it takes more memory than others, of which there is little"
    return variant.refuses(context)


def is_free(context: NodeContext) -> bool:
    """Whether the result already lies where its reader looks for it: a view costs no kernel."""
    node, op = context.node, registry()[context.node.op]
    if op.view is None or node.tail or node.inputs[0] not in context.locations:
        return False
    alias = op.view(node, (context.input,), (context.output,))
    before, after = context.locations[str(node.inputs[0])], context.locations[node.outputs[0]]
    if alias is None or alias.kind == "join":
        return False
    if alias.inward:
        return before == alias.converted(after)
    if alias.converts:
        return after == alias.converted(before)
    if alias.kind == "same":
        return after == reshaped_location(before, context.input, context.output)
    region = alias.regions[0]
    return after == region_location(
        before, context.input, context.output, region.axis, region.start
    )


_TYPES = frozenset((DType.F32, DType.F16, DType.BOOL, DType.I32, DType.I64)) | frozenset(
    (DType.I8, DType.U8, DType.I16, DType.U16)
)


def _unusable_types(context: NodeContext) -> str | None:
    for name in (*context.node.reads, *context.node.outputs):
        dtype = context.types[name].dtype
        if dtype not in _TYPES:
            return f"'{name}' holds {dtype.value}, which has no form on a GPU"
        if dtype not in context.capabilities.storages:
            language = context.capabilities.language
            return f"'{name}' holds {dtype.value}, which {language} cannot reach"
    return None


def build_kernels(
    graph: Graph,
    locations: dict[str, Location],
    target: Target,
    choices: Mapping[str, str],
) -> list[Built]:
    """The kernels of all nodes in order; every node that cannot run is named at once."""
    chosen: list[tuple[NodeContext, KernelChoice]] = []
    refusals: list[Refusal] = []
    for context in node_contexts(graph, locations, target):
        way = choose_kernel(context, choices)
        if isinstance(way, Refusal):
            refusals.append(way)
        elif not is_free(context):
            chosen.append((context, way))
    if refusals:
        what = f"{len(refusals)} of {len(graph.nodes)} nodes cannot run on {target.device.name}"
        raise UnsupportedError(what, refusals, "see 'fourfold ops' for what is supported")
    return [built for context, way in chosen for built in build_node(context, way)]


def build_node(context: NodeContext, way: KernelChoice) -> list[Built]:
    """The kernels of one node, written in one way."""
    context.choice, context.kernels = way.choice, []
    way.variant.build(context)
    return [Built(kernel, context.node) for kernel in context.kernels]
