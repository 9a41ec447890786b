"""From a graph to a plan: places, kernels, memory, and the flat list of launches."""

from __future__ import annotations

from collections.abc import Mapping

from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.kernel.site import Options
from fourfold.lower.assemble import ARENA, CONSTANTS, Constants, Homes, Texts, make_launch
from fourfold.lower.homes import Memory
from fourfold.lower.launches import build_kernels
from fourfold.lower.levels import between
from fourfold.lower.one_launch import Load, in_turn, join_launches, state_bytes, wants_one_launch
from fourfold.lower.places import choose_places
from fourfold.lower.reach import reach_ports
from fourfold.lower.states import copy_states, settle_states
from fourfold.lower.suit import suit_graph, suited_options
from fourfold.plan import Buffer, Plan, Port, Program
from fourfold.split.cost import flops


def make_plan(
    graph: Graph, device: DeviceInfo, options: Options, choices: Mapping[str, str] | None = None
) -> Plan:
    """The plan that computes the graph on a device with these facts.

    `choices` says for what is computed (`Site.key`) how it is best done there.
    """
    choices, options = {} if choices is None else choices, suited_options(graph, options, device)
    ports = _ports(graph)
    results, graph = graph.results, copy_states(suit_graph(graph, device, options))
    places = choose_places(graph, options)
    built, into = settle_states(graph, build_kernels(graph, places, device, options, choices))
    fixed = {port.name: 2 + number for number, port in enumerate(ports)}
    fixed |= {value: fixed[state] for value, state in into.items()}
    memory = Memory(graph, built, places, fixed, device.alignment)
    homes = memory.homes()
    constants, texts = Constants(graph), Texts(device, options)
    ports = _with_starts(ports, graph, constants)
    launches = tuple(make_launch(item, texts, homes, constants) for item in built)
    buffers = [Buffer("arena", "arena", homes.arena), Buffer("constants", "constants", 0), *ports]
    kernels = [item.kernel for item in built]
    load = Load(sum(flops(graph, node) for node in graph.nodes), memory.moved)
    moved: dict[int, int] = {}
    words = None
    if wants_one_launch(kernels, launches, device, options, choices, load):
        turns, launches, arena = memory.arranged(launches, homes, shares=not device.is_cpu)
        buffers[ARENA] = Buffer("arena", "arena", arena)
        if device.reaches_host:
            reached = reach_ports(kernels, launches, buffers)
            kernels, launches = reached.kernels, tuple(reached.launches)
            buffers, moved, words = reached.buffers, reached.moved, reached.words
            turns = between(reached.fetched, turns, reached.delivered)
        buffers.append(Buffer("state", "state", state_bytes(len(launches), device)))
        stages = in_turn(kernels, launches, turns)
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
        inputs=tuple(_port(graph, name, homes, moved) for name in graph.arguments),
        outputs=tuple(_port(graph, name, homes, moved) for name in results),
        constants=blob,
        precision=options.precision,
    )


def _port(graph: Graph, name: str, homes: Homes, moved: Mapping[int, int]) -> Port:
    buffer = homes.buffers[name][0]
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
