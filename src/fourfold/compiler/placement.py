"""Placement: decides which parts of a model run where, and lowers those on the device.

A model that the device can run as a whole is one part. Otherwise operators that the device cannot
run, or would run slower, go to the CPU engine of the model's format, or to NumPy. A state lives
where the operators that use it run: on the device, unless one of several operators that share it
has to run on the CPU; then all of them do, with everything between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from fourfold.backends.cpu.registry import find_engine
from fourfold.compiler.load import LoadedModel, load_model
from fourfold.compiler.partition import (
    Assignment,
    AssignmentProblem,
    Costs,
    Partition,
    assign_units,
    bind_units,
    describe_placement,
)
from fourfold.compiler.pipeline import LoweringInput, prepare_lowering
from fourfold.compiler.rewrite.take_pixels import byte_type, take_pixels
from fourfold.compiler.support import SupportCheck
from fourfold.device import DeviceInfo
from fourfold.errors import UnsupportedError
from fourfold.formats import Model
from fourfold.graph import Graph
from fourfold.options import CompileOptions, PlacementOptions
from fourfold.plan import Plan
from fourfold.plan.placement import Placement
from fourfold.plan.targets import GPU
from fourfold.support.timings import Timings
from fourfold.types import TensorType


@dataclass(frozen=True)
class PlacementProblem:
    """A model that was read, a device and the caller's options: the inputs of placement."""

    source: str | bytes
    loaded: LoadedModel
    title: str
    device: DeviceInfo
    compile_options: CompileOptions
    placement_options: PlacementOptions
    origin: str = ""  # the framework and converter that the model comes from

    @property
    def model(self) -> Model:
        return self.loaded.model

    @property
    def graph(self) -> Graph:
        """The whole graph, as the file has it; pixels become numbers at the edge of each part."""
        return self.model.main

    def part_graph(self, partition: Partition) -> Graph:
        graph = self.graph
        if sum(len(unit.nodes) for unit in partition.units) < len(graph.nodes):
            graph = partition.graph(graph)
        return take_pixels(graph, self.loaded.pictures)

    def type(self, value: str) -> TensorType:
        """Return the type of a value as it enters or leaves a part."""
        type_, pixels = self.graph.types[value], self.loaded.pictures.get(value)
        return type_ if pixels is None else byte_type(type_, pixels)

    def with_variables_on_cpu(self) -> PlacementProblem:
        """Return the same problem with resource variables left to the CPU engine."""
        loaded = load_model(self.source, self.compile_options, variables="cpu")
        return replace(self, loaded=loaded)


class LoweredPart(NamedTuple):
    """A part on the device: the rewritten graph with its options, and the plan."""

    lowering: LoweringInput
    plan: Plan


@dataclass(frozen=True)
class Decision:
    """Where everything runs: the model as it was placed, and the device's parts by number."""

    problem: PlacementProblem
    assignment: Assignment
    placement: Placement
    lowered: Mapping[int, LoweredPart]


def read_problem(
    source: str | bytes,
    device: DeviceInfo,
    compile_options: CompileOptions,
    placement_options: PlacementOptions | None = None,
    *,
    title: str = "the model",
    origin: str = "",
) -> PlacementProblem:
    """Read a model, with operators that only a CPU engine knows, and return what to place."""
    options = PlacementOptions() if placement_options is None else placement_options
    loaded = load_model(source, compile_options, "cpu" if options.only_cpu else "auto")
    return PlacementProblem(source, loaded, title, device, compile_options, options, origin)


def decide(
    problem: PlacementProblem, choices: Mapping[str, str], timings: Timings | None = None
) -> Decision:
    """Choose parts and lower those on the device. An operator that lowering refuses goes to the
    CPU, and the choice is made again.
    """
    timings = Timings() if timings is None else timings
    support = SupportCheck(problem.model)
    while True:
        with timings.stage("place"):
            units = _assignment_problem(problem, support)
            assignment = assign_units(units, problem.placement_options)
            placement = _describe(problem, units, assignment)
        lowered: dict[int, LoweredPart] = {}
        refused = len(support.refused)
        for number, partition in enumerate(assignment.partitions):
            if partition.target != GPU:
                continue
            graph = problem.part_graph(partition)
            try:
                lowering = prepare_lowering(graph, problem.device, problem.compile_options, timings)
                with timings.stage("lower"):
                    lowered[number] = LoweredPart(lowering, lowering.plan(choices))
            except UnsupportedError as error:
                support.refuse(error.refusals, partition.names)
        if len(support.refused) == refused:
            return Decision(problem, assignment, placement, lowered)
        if problem.model.holds_variables:
            problem = problem.with_variables_on_cpu()
            support = support.of_model(problem.model)


def _describe(
    problem: PlacementProblem, units: AssignmentProblem, assignment: Assignment
) -> Placement:
    engine, placement = problem.model.cpu_engine, problem.placement_options.placement
    title = "" if engine is None else find_engine(engine).title
    described = describe_placement(units, assignment, problem.device.name, placement, title)
    return replace(described, origin=problem.origin, kind=problem.device.kind)


def _assignment_problem(problem: PlacementProblem, support: SupportCheck) -> AssignmentProblem:
    source, threads = problem.model.source_graph, problem.placement_options.thread_count
    costs = Costs.of(problem.graph, problem.device, threads, problem.model.cpu_engine)
    if support.device_runs_all and not problem.placement_options.only_cpu:
        return AssignmentProblem(problem.graph, support.units, support.on_device(), costs)
    support.check(problem.title)
    return AssignmentProblem(
        graph=problem.graph,
        units=support.units,
        support=support.by_unit(),
        costs=costs,
        bound=bind_units(support.units, {} if source is None else source.states),
    )
