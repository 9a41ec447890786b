"""The kernel trees of ops for a device, in every variant."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from op_inputs import case_graph

from fourfold.codegen.context import KernelOptions
from fourfold.codegen.kernel import Kernel
from fourfold.compiler.lower.kernels import (
    KernelChoice,
    build_node,
    choose_kernel,
    node_contexts,
    variants_of,
)
from fourfold.compiler.lower.locations import choose_locations
from fourfold.compiler.lower.specialise import specialise_for
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.errors import Refusal
from fourfold.graph import Graph
from fourfold.ops.base import registry

WITH_KERNELS = [name for name, op in registry().items() if op.variants or op.pointwise]


@cache
def op_graph(name: str) -> Graph:
    """Return the graph of all cases of an op after rewriting."""
    op = registry()[name]
    return rewrite(case_graph(op, op.cases)[0])


def all_kernels(graph: Graph, device: DeviceInfo, options: KernelOptions) -> Iterator[Kernel]:
    """Yield the kernels of every variant of every node that can run.

    Each variant is built with its default choice and the first and last choice it lists.
    """
    graph, target, _ = specialise_for(graph, device, options)
    for context in node_contexts(graph, choose_locations(graph, target.options), target):
        if isinstance(choose_kernel(context, {}), Refusal):
            continue
        for variant in variants_of(registry()[context.node.op]):
            if variant.refuses(context) is None:
                listed = variant.choices(context)
                for choice in dict.fromkeys((None, *listed[:1], *listed[-1:])):
                    for built in build_node(context, KernelChoice(variant, choice)):
                        yield built.kernel
