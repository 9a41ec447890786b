"""From a graph to a plan: places, kernels, memory, and the flat list of launches."""

from __future__ import annotations

from collections.abc import Mapping

from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.kernel.place import Place
from fourfold.kernel.site import Options
from fourfold.lower.assemble import (
    ARENA,
    CONSTANT_ALIGNMENT,
    CONSTANTS,
    Constants,
    Homes,
    Texts,
    make_launch,
    value_bytes,
)
from fourfold.lower.launches import Built, build_kernels
from fourfold.lower.memory import Span, assign_offsets
from fourfold.lower.one_launch import join_launches, state_bytes, wants_one_launch
from fourfold.lower.pad_windows import pad_windows
from fourfold.lower.places import choose_places, suited_options
from fourfold.plan import Buffer, Plan, Port, Program
from fourfold.split.cost import flops

BUILD_OPTIONS = "-cl-std=CL1.2"


def make_plan(
    graph: Graph, device: DeviceInfo, options: Options, choices: Mapping[str, str] | None = None
) -> Plan:
    """The plan that computes the graph on a device with these facts.

    `choices` says for what is computed (`Site.key`) how it is best done there.
    """
    choices, options = {} if choices is None else choices, suited_options(graph, options, device)
    graph = pad_windows(graph, device)
    places = choose_places(graph, options)
    built = build_kernels(graph, places, device, options, choices)
    homes = _plan_memory(graph, built, places, device)
    constants, texts = Constants(graph), Texts()
    launches = tuple(make_launch(item, texts, homes, constants) for item in built)
    buffers = [Buffer("arena", "arena", homes.arena), Buffer("constants", "constants", 0)]
    buffers += [Buffer(name, "input", graph.types[name].bytes) for name in graph.inputs]
    results = list(dict.fromkeys(graph.outputs))
    buffers += [Buffer(name, "output", graph.types[name].bytes) for name in results]
    kernels = [item.kernel for item in built]
    work = sum(flops(graph, node) for node in graph.nodes)
    if wants_one_launch(kernels, launches, device, options, choices, work):
        buffers.append(Buffer("state", "state", state_bytes(len(launches))))
        text, launch = join_launches(kernels, launches, constants, len(buffers), device)
        launches, text = (launch,), texts.head(options) + text
    else:
        text = texts.text(options)
    blob = constants.blob()
    buffers[CONSTANTS] = Buffer("constants", "constants", blob.nbytes)
    return Plan(
        name=graph.name,
        program=Program(text, BUILD_OPTIONS),
        buffers=tuple(buffers),
        launches=launches,
        inputs=tuple(_port(graph, name, homes) for name in graph.inputs),
        outputs=tuple(_port(graph, name, homes) for name in graph.outputs),
        constants=blob,
        precision=options.precision,
    )


def _port(graph: Graph, name: str, homes: Homes) -> Port:
    return Port(name, graph.types[name], homes.buffers[name][0], graph.quantization.get(name))


def _plan_memory(
    graph: Graph, built: list[Built], places: dict[str, Place], device: DeviceInfo
) -> Homes:
    homes: dict[str, tuple[int, int]] = {}
    for number, name in enumerate(graph.inputs):
        homes[name] = (2 + number, 0)
    for number, name in enumerate(dict.fromkeys(graph.outputs)):
        homes[name] = (2 + len(graph.inputs) + number, 0)
    touched: dict[str, list[int]] = {}
    for number, item in enumerate(built):
        for argument in item.kernel.buffers:
            memory = argument.memory
            if isinstance(memory, Place) and memory.root in places and memory.root not in homes:
                touched.setdefault(memory.root, []).append(number)
    spans = {}
    for root, uses in touched.items():
        spans[root] = Span(value_bytes(graph, places[root], root), min(uses), max(uses))
    offsets, arena = assign_offsets(spans, max(CONSTANT_ALIGNMENT, device.alignment))
    homes.update({root: (ARENA, offset) for root, offset in offsets.items()})
    return Homes(homes, arena)
