"""Lowers a graph to a plan: locations, kernels, memory, and the flat list of launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower.assemble import PlanDraft, assemble
from fourfold.compiler.lower.bind import with_extents
from fourfold.compiler.lower.chosen_kernels import ChosenKernels, choose_kernels
from fourfold.compiler.lower.input_limits import input_limits
from fourfold.compiler.lower.levels import surround_levels
from fourfold.compiler.lower.one_launch import in_level_order, use_host_ports
from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.plan import ARENA, Plan, Port
from fourfold.types import silent_arithmetic

Choices = Mapping[str, str]


@silent_arithmetic()
def make_plan(
    graph: Graph, device: DeviceInfo, options: KernelOptions, choices: Choices | None = None
) -> Plan:
    """Return the plan that computes the graph on a device with these facts. Raises
    UnsupportedError for operators without a kernel.

    `choices` maps computations (`NodeContext.key`) to the kernels that are best for them. Kernels
    that trade memory for speed are left out if the device cannot allocate what they need.
    """
    plan = _lower(graph, device, options, choices)
    if options.saves_memory or plan.requirements.buffer_bytes <= device.max_allocation:
        return plan
    return _lower(graph, device, replace(options, saves_memory=True), choices)


def _lower(
    graph: Graph, device: DeviceInfo, options: KernelOptions, choices: Choices | None
) -> Plan:
    chosen = choose_kernels(graph, device, options, {} if choices is None else choices)
    draft, language = chosen.draft, chosen.language
    if chosen.wants_one_launch:
        draft = _as_one_launch(chosen)
    elif language.capabilities.extents:
        bound = with_extents(draft.bound, chosen.graph, chosen.locations)
        draft = replace(draft, bound=bound)
    limits = input_limits(graph)
    inputs = tuple(port._replace(limits=limits.get(port.name)) for port in draft.inputs)
    draft = replace(draft, inputs=inputs)
    return assemble(draft, chosen.constants, language, chosen.target)


def _as_one_launch(chosen: ChosenKernels) -> PlanDraft:
    """Turn the launches into stages of one launch, of which some may run side by side.

    Inputs and outputs are in host memory if kernels can access it.
    """
    draft, device = chosen.draft, chosen.target.device
    levels, bound, size = chosen.arranged
    buffers = [*draft.buffers]
    buffers[ARENA] = buffers[ARENA]._replace(bytes=size)
    if not device.reaches_host:
        only = in_level_order(bound, levels)
        return replace(draft, bound=bound, buffers=tuple(buffers), runs=(only,))
    reached = use_host_ports(bound, buffers)
    all_levels = surround_levels(reached.fetched, levels, reached.delivered)
    runs = [in_level_order(reached.bound, all_levels)]
    fetches = reached.fetched > 0 and not chosen.target.options.clocked
    if fetches:
        others = surround_levels(0, levels, reached.delivered)
        runs.append(in_level_order(reached.bound[reached.fetched :], others))

    def moved(ports: tuple[Port, ...]) -> tuple[Port, ...]:
        at = reached.moved
        return tuple(port._replace(buffer=at.get(port.buffer, port.buffer)) for port in ports)

    return replace(
        draft,
        bound=reached.bound,
        buffers=reached.buffers,
        inputs=moved(draft.inputs),
        outputs=moved(draft.outputs),
        runs=tuple(runs),
        host_protocol=reached.protocol,
        inputs_on_device=tuple(port.buffer for port in draft.inputs) if fetches else (),
    )
