"""Turns nodes into kernels: picks a variant for each node and builds its kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from fourfold.codegen.context import NodeContext, Packed, Target
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.location import (
    Layout,
    Location,
    Stored,
    own_location,
    region_location,
    reshaped_location,
    slice_channels,
)
from fourfold.compiler.lower.storage import nodes_for_logarithms
from fourfold.errors import Refusal, UnsupportedError
from fourfold.graph import Graph, Node
from fourfold.ops.base import Op, Variant, registry
from fourfold.ops.kernels.joined import make_tail_step
from fourfold.ops.kernels.pointwise import byte_kernel, pointwise_kernel, refuses_bytes
from fourfold.plan.layout import Arranged
from fourfold.types import DType

MIN_SHARED_BYTES = 4096


@dataclass(frozen=True)
class Built:
    """A kernel of a node, before it is rendered."""

    kernel: Kernel
    node: Node


def constant_locations(graph: Graph) -> dict[str, Location]:
    """Return the locations of constants that kernels read as tensors: SLICED, in fp32."""
    return {
        name: own_location(name, Layout.SLICED, graph.types[name], Stored(graph.types[name].dtype))
        for name in graph.constants
    }


def constant_storage(array: np.ndarray) -> Arranged:
    return slice_channels(np.asarray(array))


def node_contexts(
    graph: Graph, locations: dict[str, Location], target: Target
) -> Iterator[NodeContext]:
    """Yield a context for each node, except those whose results have no elements.

    Values that lead to a logarithm are computed in fp32, whatever the requested precision.
    """
    all_locations = {**constant_locations(graph), **locations}
    exact = replace(target, options=replace(target.options, precision="fp32"))
    in_full = nodes_for_logarithms(graph) if target != exact else frozenset()
    for node in graph.nodes:
        if not any(graph.types[name].elements for name in node.outputs):
            continue
        tail = tuple(make_tail_step(step) for step in node.tail)
        node_target = exact if node.outputs[0] in in_full else target
        yield NodeContext(node, graph.types, graph.constants, all_locations, tail, node_target)


def variants_of(op: Op) -> tuple[Variant, ...]:
    """Return all kernel variants of an op, the preferred one first."""
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
    """The variant that runs a node, and the form of its kernels (None: the variant's default)."""

    variant: Variant
    choice: str | None = None

    def __str__(self) -> str:
        return f"{self.variant.name}: {self.choice or 'default'}"


def choose_kernel(context: NodeContext, choices: Mapping[str, str]) -> KernelChoice | Refusal:
    """Return the tuned kernel for a node, else the first variant that supports and suits it.

    If no variant does, return a refusal with the reasons.
    """
    unusable = _unusable_types(context)
    reasons = [unusable] if unusable else []
    if not reasons:
        name, _, choice = choices.get(context.key, "").partition(": ")
        for variant in variants_of(registry()[context.node.op]):
            reason = _refusal_reason(variant, context)
            if reason is not None:
                reasons.append(reason)
            elif variant.name == name or (not name and variant.suits(context)):
                return KernelChoice(variant, choice or None)
        if name:
            # The stored choice names a variant that no longer exists, or that refuses: choose
            # again.
            return choose_kernel(context, {})
    title = context.node.name or context.node.outputs[0]
    return Refusal(title, context.node.op, "; ".join(reasons) or "no kernel")


def _refusal_reason(variant: Variant, context: NodeContext) -> str | None:
    if variant.uses_more_memory and context.options.saves_memory:
        return "it needs more memory than other kernels, and memory is limited"
    return variant.refuses(context)


def is_free(context: NodeContext) -> bool:
    """Return whether the result is a view of the input, which needs no kernel."""
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
            return f"'{name}' holds {dtype.value}, which GPU kernels do not support"
        if dtype not in context.capabilities.storages:
            language = context.capabilities.language
            return f"'{name}' holds {dtype.value}, which {language} does not support"
    return None


def build_kernels(
    graph: Graph,
    locations: dict[str, Location],
    target: Target,
    choices: Mapping[str, str],
) -> list[Built]:
    """Return the kernels of all nodes in order; raise with every node that cannot run."""
    chosen: list[tuple[NodeContext, KernelChoice]] = []
    refusals: list[Refusal] = []
    for context in node_contexts(graph, locations, target):
        choice = choose_kernel(context, choices)
        if isinstance(choice, Refusal):
            refusals.append(choice)
        elif not is_free(context):
            chosen.append((context, choice))
    if refusals:
        what = f"{len(refusals)} of {len(graph.nodes)} nodes cannot run on {target.device.name}"
        raise UnsupportedError(what, refusals, "see 'fourfold ops' for what is supported")
    shared = SharedArrays()
    built = []
    for context, choice in chosen:
        built += build_node(context, choice)
        shared.share(context.kernels)
    return built


class SharedArrays:
    """Equal constants that several kernels have packed, so that each is in memory once."""

    def __init__(self) -> None:
        self._arrays: dict[tuple[int, str, bytes], np.ndarray] = {}

    def share(self, kernels: Iterable[Kernel]) -> None:
        """Replace large constants of kernels with equal ones of earlier kernels."""
        for kernel in kernels:
            for number, argument in enumerate(kernel.buffers):
                packed = argument.memory
                if isinstance(packed, Packed) and packed.array.nbytes >= MIN_SHARED_BYTES:
                    array = self._find(packed.array)
                    kernel.buffers[number] = replace(argument, memory=replace(packed, array=array))

    def _find(self, array: np.ndarray) -> np.ndarray:
        """Return the first array with the same start, if all of it is equal."""
        start = array.reshape(-1)[:16].tobytes()
        first = self._arrays.setdefault((array.nbytes, array.dtype.str, start), array)
        if first is array or first.shape != array.shape:
            return array
        return first if np.array_equal(first, array) else array


def build_node(context: NodeContext, choice: KernelChoice) -> list[Built]:
    """Build the kernels of one node with a chosen variant."""
    context.choice, context.kernels = choice.choice, []
    choice.variant.build(context)
    return [Built(kernel, context.node) for kernel in context.kernels]
