"""Decides which parts of a model run where, plans those on the GPU, and says why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from fourfold.compile.load import LoadedModel, load_model
from fourfold.compile.pipeline import LoweringInput, prepare_lowering
from fourfold.compile.support import SupportCheck
from fourfold.cpu.registry import find_engine
from fourfold.device import DeviceInfo
from fourfold.errors import InputError, UnsupportedError
from fourfold.formats import Model
from fourfold.graph import Graph
from fourfold.options import CompileOptions, PlacementOptions
from fourfold.placement import Placement
from fourfold.plan import Plan
from fourfold.rewrite.take_pixels import byte_type, take_pixels
from fourfold.split import (
    Assignment,
    AssignmentProblem,
    Costs,
    Partition,
    assign_units,
    bind_units,
    describe_placement,
)
from fourfold.targets import GPU
from fourfold.types import TensorType


@dataclass(frozen=True)
class PlacementProblem:
    """A model, a device and what the caller said: all that placement is decided from."""

    loaded: LoadedModel
    title: str
    device: DeviceInfo
    compile_options: CompileOptions
    placement_options: PlacementOptions
    origin: str = ""  # who converted it, in words

    @property
    def model(self) -> Model:
        return self.loaded.model

    @property
    def graph(self) -> Graph:
        """All of it as the file has it; what comes as bytes does so at the edge of each part."""
        return self.model.main

    def part_graph(self, partition: Partition) -> Graph:
        return take_pixels(partition.graph(self.graph), self.loaded.pictures)

    def type(self, value: str) -> TensorType:
        """What goes into a part, or out of it."""
        type_, pixels = self.graph.types[value], self.loaded.pictures.get(value)
        return type_ if pixels is None else byte_type(type_, pixels)


class PlannedPart(NamedTuple):
    """A part on the GPU: what was lowered, and its plan."""

    lowering: LoweringInput
    plan: Plan


@dataclass(frozen=True)
class Decision:
    """Where everything runs, and the GPU's parts by their numbers among all."""

    assignment: Assignment
    placement: Placement
    planned: Mapping[int, PlannedPart]


def read_problem(
    source: str | bytes,
    title: str,
    device: DeviceInfo,
    compile_options: CompileOptions,
    placement_options: PlacementOptions,
    origin: str = "",
) -> PlacementProblem:
    """The problem of placing a model; what only a CPU engine knows is part of it."""
    loaded = load_model(source, compile_options, keep_unsupported=True)
    return PlacementProblem(loaded, title, device, compile_options, placement_options, origin)


def decide(problem: PlacementProblem, choices: Mapping[str, str]) -> Decision:
    """Chooses parts and plans them; what lowering refuses goes to the CPU, and it starts anew."""
    support = SupportCheck(problem.model)
    options = problem.placement_options
    while True:
        support.check(problem.title)
        units = _assignment_problem(problem, support)
        assignment = assign_units(units, options)
        planned = _plan_parts(problem, support, assignment, choices)
        if planned is not None:
            placement = _describe(problem, units, assignment)
            _report_fallbacks(problem, placement)
            return Decision(assignment, placement, planned)


def describe_whole(problem: PlacementProblem) -> Placement:
    """The placement of a model of which all runs on the device in one plan."""
    units = replace(_assignment_problem(problem, SupportCheck(problem.model)), bound=())
    assignment = units.assignment({unit.name: GPU for unit in units.units}, {})
    return _describe(problem, units, assignment)


def _describe(
    problem: PlacementProblem, units: AssignmentProblem, assignment: Assignment
) -> Placement:
    engine, asked = problem.model.cpu_engine, problem.placement_options.placement
    title = "" if engine is None else find_engine(engine).title
    found = describe_placement(units, assignment, problem.device.name, asked, title)
    return replace(found, origin=problem.origin, kind=problem.device.kind)


def _assignment_problem(problem: PlacementProblem, support: SupportCheck) -> AssignmentProblem:
    origin, threads = problem.model.source_graph, problem.placement_options.thread_count
    return AssignmentProblem(
        graph=problem.graph,
        units=support.units,
        support=support.by_unit(),
        costs=Costs.of(problem.graph, problem.device, threads, problem.model.cpu_engine),
        bound=bind_units(support.units, {} if origin is None else origin.states),
    )


def _plan_parts(
    problem: PlacementProblem,
    support: SupportCheck,
    assignment: Assignment,
    choices: Mapping[str, str],
) -> Mapping[int, PlannedPart] | None:
    """A plan for each part on the GPU; None where one was refused, which is noted."""
    planned: dict[int, PlannedPart] = {}
    before = len(support.refused)
    for number, partition in enumerate(assignment.partitions):
        if partition.target == GPU:
            try:
                planned[number] = _plan_part(problem, partition, choices)
            except UnsupportedError as error:
                support.refuse(error.refusals, partition.names)
    return planned if len(support.refused) == before else None


def _plan_part(
    problem: PlacementProblem, partition: Partition, choices: Mapping[str, str]
) -> PlannedPart:
    graph = problem.part_graph(partition)
    lowering = prepare_lowering(graph, problem.device, problem.compile_options)
    return PlannedPart(lowering, lowering.plan(choices))


def _report_fallbacks(problem: PlacementProblem, placement: Placement) -> None:
    """Says what stays on the CPU: as an error to the strict, else to who wants to know."""
    if problem.placement_options.strict and not placement.whole:
        reasons = [f"{row.op} '{row.name}': {row.reason}" for row in placement.fallbacks]
        raise InputError(
            f"{problem.title} does not run wholly on {problem.device.name}",
            f"strict=True was asked for, and these stay on the CPU: {'; '.join(reasons)}",
            "leave strict out, or see 'fourfold check' for what could be changed",
        )
    if problem.placement_options.on_fallback is not None:
        for row in placement.fallbacks:
            problem.placement_options.on_fallback(row)
