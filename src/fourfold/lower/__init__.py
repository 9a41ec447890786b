"""From a graph to a plan: locations, kernels, memory, and the flat list of launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fourfold.device import DeviceInfo
from fourfold.errors import Refusal, UnsupportedError
from fourfold.graph import Graph
from fourfold.kernel.context import KernelOptions
from fourfold.kernel.language import Language
from fourfold.lower.allocation import Memory
from fourfold.lower.assemble import PlanDraft, assemble
from fourfold.lower.bind import Allocation, bind_kernel
from fourfold.lower.constants import Constants
from fourfold.lower.extents import with_extents
from fourfold.lower.host_access import use_host_ports
from fourfold.lower.kernels import build_kernels
from fourfold.lower.levels import between
from fourfold.lower.locations import choose_locations
from fourfold.lower.one_launch import Load, in_level_order, table_bytes, wants_one_launch
from fourfold.lower.specialise import specialise_for
from fourfold.lower.states import copy_states, settle_states
from fourfold.plan import ARENA, Buffer, Plan, Port
from fourfold.split.cost import flops
from fourfold.types import silent_arithmetic

Choices = Mapping[str, str]


@silent_arithmetic()
def make_plan(
    graph: Graph, device: DeviceInfo, options: KernelOptions, choices: Choices | None = None
) -> Plan:
    """The plan that computes the graph on a device with these facts.

    `choices` says for what is computed (`NodeContext.key`) how it is best done there.
    """
    choices = {} if choices is None else choices
    ports, results = _port_buffers(graph), graph.results
    work = sum(flops(graph, node) for node in graph.nodes)
    graph, target, language = specialise_for(graph, device, options)
    graph = copy_states(graph)
    locations = choose_locations(graph, target.options)
    built, into = settle_states(graph, build_kernels(graph, locations, target, choices))
    fixed = {port.name: 2 + number for number, port in enumerate(ports)}
    fixed |= {value: fixed[state] for value, state in into.items()}
    memory = Memory(graph, built, locations, fixed, target, 2 + len(ports))
    allocation = memory.allocate()
    arenas = [Buffer("arena", "arena", size) for size in (allocation.arena, *allocation.further)]
    constants = Constants(graph, target.device.max_allocation, 1 + len(ports) + len(arenas))
    ports = _with_starts(ports, graph, constants)
    draft = PlanDraft(
        name=graph.name,
        bound=tuple(bind_kernel(item, target.device, allocation, constants) for item in built),
        buffers=(arenas[0], Buffer("constants", "constants", 0), *ports, *arenas[1:]),
        inputs=tuple(_port(graph, name, allocation) for name in graph.arguments),
        outputs=tuple(_port(graph, name, allocation) for name in results),
        flops=work,
    )
    load = Load(sum(flops(graph, node) for node in graph.nodes), memory.moved)
    whole = not allocation.further and constants.has_room_for(table_bytes(draft.bound, len(ports)))
    if whole and wants_one_launch(draft.bound, language, target, choices, load):
        draft = _as_one_launch(draft, memory, allocation, language, target.device)
    elif language.capabilities.extents:
        draft = replace(draft, bound=with_extents(draft.bound, graph, locations))
    return assemble(draft, constants, language, target)


def _as_one_launch(
    draft: PlanDraft, memory: Memory, allocation: Allocation, language: Language, device: DeviceInfo
) -> PlanDraft:
    """The same work as stages of one launch, of which some may run side by side; inputs and outputs
    in host memory where kernels reach it.
    """
    assert language.persistent is not None
    shares = language.persistent.shares(device)
    levels, bound, size = memory.arranged(draft.bound, allocation, shares)
    buffers = [*draft.buffers]
    buffers[ARENA] = buffers[ARENA]._replace(bytes=size)
    if not device.reaches_host:
        runs = (in_level_order(bound, levels),)
        return replace(draft, bound=bound, buffers=tuple(buffers), runs=runs)
    reached = use_host_ports(bound, buffers)
    levels = between(reached.fetched, levels, reached.delivered)

    def moved(ports: tuple[Port, ...]) -> tuple[Port, ...]:
        at = reached.moved
        return tuple(port._replace(buffer=at.get(port.buffer, port.buffer)) for port in ports)

    return replace(
        draft,
        bound=reached.bound,
        buffers=reached.buffers,
        inputs=moved(draft.inputs),
        outputs=moved(draft.outputs),
        runs=(in_level_order(reached.bound, levels),),
        host_protocol=reached.protocol,
    )


def _port(graph: Graph, name: str, allocation: Allocation) -> Port:
    buffer = allocation.buffers[name][0]
    return Port(name, graph.types[name], buffer, graph.quantization.get(name))


def _port_buffers(graph: Graph) -> list[Buffer]:
    """Buffers of what goes in and out, and of what stays from one run to the next; an output that
    is an input has one already.
    """
    kinds = [("output", graph.results), ("input", graph.arguments), ("variable", graph.states)]
    kind_of = {name: kind for kind, names in kinds for name in names}
    names = dict.fromkeys([*graph.arguments, *graph.results, *graph.states])
    refusals = [
        Refusal(name, kind_of[name], f"{graph.types[name].dtype.value} values are no arrays")
        for name in names
        if not graph.types[name].dtype.has_numpy
    ]
    if refusals:
        fix = "run the model by its format's own engine: placement='cpu'"
        raise UnsupportedError("a value of the model cannot be passed", refusals, fix)
    return [Buffer(name, kind_of[name], graph.types[name].bytes) for name in names]


def _with_starts(ports: list[Buffer], graph: Graph, constants: Constants) -> list[Buffer]:
    """The same buffers, where variables that do not begin as zeros know what they begin with."""
    starts = {name: constants.offset(array) for name, array in graph.starts.items()}
    return [port._replace(start=starts.get(port.name)) for port in ports]
