"""The pipeline from a graph to a plan: rewrite the graph, probe the device, lower the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from fourfold import backends
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.lower.details import LoweringDetails, lowering_details
from fourfold.compiler.lower.specialise import has_quantised_steps, is_memory_bound
from fourfold.compiler.rewrite import rewrite
from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.options import CompileOptions
from fourfold.plan import Plan
from fourfold.support.log import Log
from fourfold.support.timings import Timings

log = Log("compiler")


class LoweringInput(NamedTuple):
    """The input of lowering and tuning: a rewritten graph, a device with its probed facts, and
    options for kernels.
    """

    graph: Graph
    device: DeviceInfo
    options: KernelOptions

    def with_compile_options(self, options: CompileOptions) -> LoweringInput:
        """Return the same input with other options. Options that depend on the whole graph are set
        here, so that verify and tuning lower parts of it in the same way.
        """
        # Matrix units are fastest for fp16 products, and accumulate in fp32.
        as_fast = self.device.matrix_units or is_memory_bound(self.graph)
        floats = options.precision == "fp16" and as_fast
        return self._replace(options=replace(kernel_options(options), floats_as_fast=floats))

    def plan(self, choices: Mapping[str, str] | None = None) -> Plan:
        """Return the plan, with tuned choices (see `make_plan`)."""
        return make_plan(self.graph, self.device, self.options, choices)

    def details(self, choices: Mapping[str, str] | None = None) -> LoweringDetails:
        """Return details of lowering that are not part of the plan."""
        return lowering_details(self.graph, self.device, self.options, choices or {})


def kernel_options(options: CompileOptions) -> KernelOptions:
    """Return the options for kernels; lowering completes them from graph and device."""
    return KernelOptions(
        options.precision,
        options.literal_sizes,
        options.launches,
        saves_memory=options.saves_memory,
        clocked=options.clocked,
    )


def prepare_lowering(
    graph: Graph, device: DeviceInfo, options: CompileOptions, timings: Timings | None = None
) -> LoweringInput:
    """Rewrite a graph, probe the device, and return the input of lowering."""
    timings = Timings() if timings is None else timings
    with timings.stage("rewrite"):
        rewritten = rewrite(graph)
    log.debug("rewrote %d nodes as %d", len(graph.nodes), len(rewritten.nodes))
    graph = rewritten
    with timings.stage("probe"):
        device = backends.probe(device, has_quantised_steps(graph))
    return LoweringInput(graph, device, KernelOptions()).with_compile_options(options)


def plan_graph(
    graph: Graph,
    device: DeviceInfo,
    options: CompileOptions,
    choices: Mapping[str, str] | None = None,
) -> Plan:
    """Return the plan of a graph on a device."""
    return prepare_lowering(graph, device, options).plan(choices)
