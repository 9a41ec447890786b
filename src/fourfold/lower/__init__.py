"""From a graph to a plan: locations, kernels, memory, and the flat list of launches."""

from __future__ import annotations

from collections.abc import Mapping

from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.kernel.context import KernelOptions
from fourfold.lower.allocation import Memory
from fourfold.lower.assemble import ARENA, CONSTANTS, Allocation, Constants, Texts, make_launch
from fourfold.lower.host_access import use_host_ports
from fourfold.lower.kernels import build_kernels
from fourfold.lower.levels import between
from fourfold.lower.locations import choose_locations
from fourfold.lower.one_launch import (
    Load,
    in_level_order,
    join_launches,
    state_bytes,
    wants_one_launch,
)
from fourfold.lower.specialise import specialise_graph, specialise_options
from fourfold.lower.states import copy_states, settle_states
from fourfold.plan import Buffer, Plan, Port, Program
from fourfold.split.cost import flops

Choices = Mapping[str, str]


def make_plan(
    graph: Graph, device: DeviceInfo, options: KernelOptions, choices: Choices | None = None
) -> Plan:
    """The plan that computes the graph on a device with these facts.

    `choices` says for what is computed (`NodeContext.key`) how it is best done there.
    """
    choices = {} if choices is None else choices
    options = specialise_options(graph, options, device)
    ports = _ports(graph)
    results, graph = graph.results, copy_states(specialise_graph(graph, device, options))
    locations = choose_locations(graph, options)
    built, into = settle_states(graph, build_kernels(graph, locations, device, options, choices))
    fixed = {port.name: 2 + number for number, port in enumerate(ports)}
    fixed |= {value: fixed[state] for value, state in into.items()}
    memory = Memory(graph, built, locations, fixed, device.alignment)
    allocation = memory.allocate()
    constants, texts = Constants(graph), Texts(device, options)
    ports = _with_starts(ports, graph, constants)
    launches = tuple(make_launch(item, texts, allocation, constants) for item in built)
    arena = Buffer("arena", "arena", allocation.arena)
    buffers = [arena, Buffer("constants", "constants", 0), *ports]
    kernels, moved, words = [item.kernel for item in built], dict[int, int](), None
    load = Load(sum(flops(graph, node) for node in graph.nodes), memory.moved)
    if wants_one_launch(kernels, launches, device, options, choices, load):
        levels, launches, size = memory.arranged(launches, allocation, shares=not device.is_cpu)
        buffers[ARENA] = Buffer("arena", "arena", size)
        if device.reaches_host:
            reached = use_host_ports(kernels, launches, buffers)
            kernels, launches = reached.kernels, tuple(reached.launches)
            buffers, moved, words = reached.buffers, reached.moved, reached.words
            levels = between(reached.fetched, levels, reached.delivered)
        buffers.append(Buffer("state", "state", state_bytes(len(launches), device)))
        stages = in_level_order(kernels, launches, levels)
        text, launch = join_launches(stages, constants, len(buffers), device, words)
        launches, text = (launch,), texts.head() + text
    else:
        text = texts.text()
    blob = constants.blob()
    buffers[CONSTANTS] = Buffer("constants", "constants", blob.nbytes)
    return Plan(
        name=graph.name,
        program=Program(text, texts.options),
        buffers=tuple(buffers),
        launches=launches,
        inputs=tuple(_port(graph, name, allocation, moved) for name in graph.arguments),
        outputs=tuple(_port(graph, name, allocation, moved) for name in results),
        constants=blob,
        precision=options.precision,
    )


def _port(graph: Graph, name: str, allocation: Allocation, moved: Mapping[int, int]) -> Port:
    buffer = allocation.buffers[name][0]
    how = graph.quantization.get(name)
    return Port(name, graph.types[name], moved.get(buffer, buffer), how)


def _ports(graph: Graph) -> list[Buffer]:
    """Buffers of what goes in and out, and of what stays from one run to the next; an output that
    is an input has one already.
    """
    kinds = [("output", graph.results), ("input", graph.arguments), ("variable", graph.states)]
    kind_of = {name: kind for kind, names in kinds for name in names}
    names = dict.fromkeys([*graph.arguments, *graph.results, *graph.states])
    return [Buffer(name, kind_of[name], graph.types[name].bytes) for name in names]


def _with_starts(ports: list[Buffer], graph: Graph, constants: Constants) -> list[Buffer]:
    """The same buffers, where variables that do not begin as zeros know what they begin with."""
    starts = {name: constants.offset(array) for name, array in graph.starts.items()}
    return [port._replace(start=starts.get(port.name)) for port in ports]
