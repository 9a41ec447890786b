"""Chooses the kernels of a graph and the memory of its values, before they are bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from fourfold.codegen.context import KernelOptions, Target
from fourfold.codegen.language import Language
from fourfold.codegen.location import Location
from fourfold.compiler.lower.allocation import Memory
from fourfold.compiler.lower.assemble import PlanDraft
from fourfold.compiler.lower.bind import Allocation, Bound, bind_kernel
from fourfold.compiler.lower.constants import Constants
from fourfold.compiler.lower.kernels import Built, build_kernels
from fourfold.compiler.lower.levels import LevelSpan
from fourfold.compiler.lower.locations import choose_locations
from fourfold.compiler.lower.one_launch import Load, table_bytes, wants_one_launch
from fourfold.compiler.lower.specialise import specialise_for
from fourfold.compiler.lower.states import copy_states, settle_states
from fourfold.compiler.partition.cost import flops
from fourfold.device import DeviceInfo
from fourfold.errors import Refusal, UnsupportedError
from fourfold.graph import Graph
from fourfold.plan import Buffer, Port

Choices = Mapping[str, str]


@dataclass(frozen=True, eq=False)
class ChosenKernels:
    """A graph specialised for a device, its kernels in order, and the memory they access."""

    graph: Graph
    target: Target
    language: Language
    locations: dict[str, Location]
    built: list[Built]
    ports: list[Buffer]
    memory: Memory
    choices: Choices
    results: tuple[str, ...]  # results for the caller; the graph also has copies of states
    work: float  # operations per run of the graph before it was specialised

    @cached_property
    def allocation(self) -> Allocation:
        """Locations of values if each kernel is a launch of its own."""
        return self.memory.allocate()

    @cached_property
    def constants(self) -> Constants:
        """The constants; filled while kernels are bound."""
        arenas = 1 + len(self.allocation.further)
        return Constants(
            self.graph, self.target.device.max_allocation, 1 + len(self.ports) + arenas
        )

    @cached_property
    def draft(self) -> PlanDraft:
        """A plan with one launch per kernel."""
        allocation, constants, device = self.allocation, self.constants, self.target.device
        sizes = (allocation.arena, *allocation.further)
        arenas = [Buffer("arena", "arena", size) for size in sizes]
        ports = _with_starts(self.ports, self.graph, constants)
        return PlanDraft(
            name=self.graph.name,
            bound=tuple(bind_kernel(item, device, allocation, constants) for item in self.built),
            buffers=(arenas[0], Buffer("constants", "constants", 0), *ports, *arenas[1:]),
            inputs=tuple(self._port(name) for name in self.graph.arguments),
            outputs=tuple(self._port(name) for name in self.results),
            flops=self.work,
        )

    def _port(self, name: str) -> Port:
        buffer = self.allocation.buffers[name][0]
        return Port(name, self.graph.types[name], buffer, self.graph.quantization.get(name))

    @property
    def wants_one_launch(self) -> bool:
        """True if the draft's launches become stages of one."""
        bound = self.draft.bound
        if self.allocation.further:
            return False
        if not self.constants.can_append(table_bytes(bound, len(self.ports))):
            return False
        work = sum(flops(self.graph, node) for node in self.graph.nodes)
        load = Load(work, self.memory.moved)
        return wants_one_launch(bound, self.language, self.target, self.choices, load)

    @property
    def arranged(self) -> tuple[list[LevelSpan], tuple[Bound, ...], int]:
        """The levels of stages of one launch, the bound kernels, and the size of the arena."""
        assert self.language.persistent is not None
        shares = self.language.persistent.shares(self.target.device)
        return self.memory.arranged(self.draft.bound, self.allocation, shares)


def choose_kernels(
    graph: Graph, device: DeviceInfo, options: KernelOptions, choices: Choices
) -> ChosenKernels:
    """Choose the kernels for a device with these facts.

    `choices` maps computations (`NodeContext.key`) to the kernels that are best for them.
    """
    ports, results = _port_buffers(graph), graph.results
    work = sum(flops(graph, node) for node in graph.nodes)
    graph, target, language = specialise_for(graph, device, options)
    graph = copy_states(graph)
    locations = choose_locations(graph, target.options)
    built, into = settle_states(graph, build_kernels(graph, locations, target, choices))
    fixed = {port.name: 2 + number for number, port in enumerate(ports)}
    fixed |= {value: fixed[state] for value, state in into.items()}
    memory = Memory(graph, built, locations, fixed, target, 2 + len(ports))
    return ChosenKernels(
        graph=graph,
        target=target,
        language=language,
        locations=locations,
        built=built,
        ports=ports,
        memory=memory,
        choices=choices,
        results=results,
        work=work,
    )


def _port_buffers(graph: Graph) -> list[Buffer]:
    """Return the buffers of inputs, outputs and states, each value once."""
    kinds = [("output", graph.results), ("input", graph.arguments), ("variable", graph.states)]
    kind_of = {name: kind for kind, names in kinds for name in names}
    names = dict.fromkeys([*graph.arguments, *graph.results, *graph.states])
    refusals = [
        Refusal(
            name,
            kind_of[name],
            f"{graph.types[name].dtype.value} values cannot be passed as arrays",
        )
        for name in names
        if not graph.types[name].dtype.has_numpy
    ]
    if refusals:
        fix = "run the model with the CPU runtime of its format: placement='cpu'"
        raise UnsupportedError("a value of the model cannot be passed to the device", refusals, fix)
    return [Buffer(name, kind_of[name], graph.types[name].bytes) for name in names]


def _with_starts(ports: list[Buffer], graph: Graph, constants: Constants) -> list[Buffer]:
    """Set the initial values of variables that do not start as zeros."""
    starts = {name: constants.offset(array) for name, array in graph.starts.items()}
    return [port._replace(start=starts.get(port.name)) for port in ports]
