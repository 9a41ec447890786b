"""The one way from a graph to a plan: rewrite it, learn what the device can do, lower it."""

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
    """What lowering and tuning work on: a rewritten graph, a device with those facts that only a
    trial tells, and how kernels are to be written.
    """

    graph: Graph
    device: DeviceInfo
    options: KernelOptions

    def asked_for(self, options: CompileOptions) -> LoweringInput:
        """The same by other options, with what the whole graph makes of them: verify and tuning
        lower parts of it, which are to be as they are in the whole.
        """
        # Matrix units multiply halves faster than anything else does, and sum up in floats.
        as_fast = self.device.matrix_units or is_memory_bound(self.graph)
        floats = options.precision == "fp16" and as_fast
        return self._replace(options=replace(kernel_options(options), floats_as_fast=floats))

    def plan(self, choices: Mapping[str, str] | None = None) -> Plan:
        """The plan, with what was found best by tuning; UnsupportedError for what has no kernel."""
        plan = make_plan(self.graph, self.device, self.options, choices)
        if (
            self.options.saves_memory
            or plan.requirements.buffer_bytes <= self.device.max_allocation
        ):
            return plan
        # A kernel that buys speed with memory may want more at once than the device allocates.
        smaller = replace(self.options, saves_memory=True)
        return make_plan(self.graph, self.device, smaller, choices)

    def details(self, choices: Mapping[str, str] | None = None) -> LoweringDetails:
        """What the plan does not say of itself."""
        known = {} if choices is None else choices
        return lowering_details(self.graph, self.device, self.options, known)


def kernel_options(options: CompileOptions) -> KernelOptions:
    """What kernels are told of the options; lowering adds what graph and device make of it."""
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
    """All that comes before lowering."""
    timings = Timings() if timings is None else timings
    with timings.stage("rewrite"):
        rewritten = rewrite(graph)
    log.debug("rewrote %d nodes as %d", len(graph.nodes), len(rewritten.nodes))
    graph = rewritten
    with timings.stage("probe"):
        device = backends.probe(device, has_quantised_steps(graph))
    return LoweringInput(graph, device, KernelOptions()).asked_for(options)


def plan_graph(
    graph: Graph,
    device: DeviceInfo,
    options: CompileOptions,
    choices: Mapping[str, str] | None = None,
) -> Plan:
    """The plan of a graph on a device."""
    return prepare_lowering(graph, device, options).plan(choices)
