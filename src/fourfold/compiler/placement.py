"""Placement: decides which parts of a model run where, and lowers those on the device.

A model that the device can run as a whole is one part. Otherwise operators that the device cannot
run, or would run slower, go to the CPU engine of the model's format, or to NumPy. A state lives
where the operators that use it run: on the device, unless one of several operators that share it
has to run on the CPU; then all of them do, with everything between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fourfold.backends.cpu.protocol import CpuEngine
from fourfold.backends.cpu.registry import find_engine
from fourfold.compiler.load import LoadedModel, load_model
from fourfold.compiler.lower import make_plan
from fourfold.compiler.partition import (
    Assignment,
    AssignmentProblem,
    Costs,
    Partition,
    PartitionKey,
    Unit,
    UnitSupport,
    assign_units,
    bind_units,
    describe_placement,
    find_units,
)
from fourfold.compiler.pipeline import LoweringInput, prepare_lowering
from fourfold.compiler.rewrite.take_pixels import byte_type, take_pixels
from fourfold.custom import registration_example
from fourfold.device import DeviceInfo
from fourfold.errors import Refusal, UnsupportedError
from fourfold.formats import Model
from fourfold.graph import Graph
from fourfold.ops.custom import Custom
from fourfold.options import CompileOptions, PlacementOptions
from fourfold.plan import Plan
from fourfold.plan.placement import Placement
from fourfold.plan.targets import GPU, NUMPY
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
    """The result of placement: the placed model, and its parts on the device by number."""

    problem: PlacementProblem
    assignment: Assignment
    placement: Placement
    lowered: Mapping[int, LoweredPart]

    @property
    def lowerings(self) -> dict[PartitionKey, LoweringInput]:
        """The rewritten graphs of the parts on the device."""
        partitions = self.assignment.partitions
        return {partitions[n].key: part.lowering for n, part in self.lowered.items()}


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
    problem: PlacementProblem,
    choices: Mapping[str, str],
    timings: Timings | None = None,
    before: Decision | None = None,
) -> Decision:
    """Choose parts and lower those on the device. An operator that lowering refuses goes to the
    CPU, and the choice is made again.

    Graphs that were rewritten for a decision `before`, on the same loaded model with other options,
    are used again.
    """
    timings = Timings() if timings is None else timings
    support = SupportCheck(problem.model, isolate=problem.placement_options.isolate)
    rewritten = {} if before is None else before.lowerings
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
            known, options = rewritten.get(partition.key), problem.compile_options
            try:
                if known is not None:
                    lowering = known.with_compile_options(options)
                else:
                    graph = problem.part_graph(partition)
                    lowering = prepare_lowering(graph, problem.device, options, timings)
                rewritten[partition.key] = lowering
                with timings.stage("lower"):
                    plan = make_plan(lowering.graph, lowering.device, lowering.options, choices)
                lowered[number] = LoweredPart(lowering, plan)
            except UnsupportedError as error:
                support.refuse(error.refusals, partition.names)
        if len(support.refused) == refused:
            return Decision(problem, assignment, placement, lowered)
        if problem.model.holds_variables:
            problem, rewritten = problem.with_variables_on_cpu(), {}
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


@dataclass
class SupportCheck:
    """Support of a model's units; lowering adds units that it cannot compile to `refused`."""

    model: Model
    refused: dict[str, str] = field(default_factory=dict)
    isolate: bool = False  # the engine opens operators in another process
    _answers: dict[str, str] = field(
        default_factory=dict
    )  # answers of the engine by operator title

    def __post_init__(self) -> None:
        self.units: tuple[Unit, ...] = find_units(self.model.main, self.model.source_graph)
        name = self.model.cpu_engine
        self.engine: CpuEngine | None = None if name is None else find_engine(name, self.isolate)
        self._read = self._read_by_others()

    def of_model(self, model: Model) -> SupportCheck:
        """Return the check for the same model read with other options."""
        return SupportCheck(model, self.refused, self.isolate)

    @property
    def device_runs_all(self) -> bool:
        """True if no unit is known that the device cannot run."""
        return not self.refused and not any(unit.foreign for unit in self.units)

    def on_device(self) -> Mapping[str, UnitSupport]:
        """Return the support of a model that needs no CPU engine, without asking any engine."""
        engine = self.model.cpu_engine or NUMPY
        return {unit.name: UnitSupport(unit.name, {GPU: "", engine: ""}) for unit in self.units}

    def by_unit(self) -> Mapping[str, UnitSupport]:
        return {unit.name: self._support(unit) for unit in self.units}

    def _support(self, unit: Unit) -> UnitSupport:
        foreign = unit.foreign
        reasons = {GPU: foreign.reason if foreign else self.refused.get(unit.name, "")}
        if self.engine is not None:
            reasons[self.engine.name] = self._refusal(self.engine, unit)
        reasons[NUMPY] = find_engine(NUMPY).refusal(self.model, unit)
        return UnitSupport(unit.name, reasons)

    def _refusal(self, engine: CpuEngine, unit: Unit) -> str:
        """Return why the engine of the model's format cannot run a unit; '' if it can."""
        if not unit.in_file:
            return "it is not an operator of the file"
        if not engine.installed():
            return f"{engine.title} is not installed"
        if any(isinstance(node.attributes, Custom) for node in unit.nodes):
            return "it was registered by the caller"
        hidden = self._read[unit.name] - set(unit.writes_in_file)
        if hidden:
            return f"'{min(hidden)}' is not a value of the file"
        source = self.model.source_graph
        flaw = "" if source is None else source.flaw(unit.name)
        if flaw:
            return f"{engine.title} must not read it: {flaw}"
        if unit.title not in self._answers:
            self._answers[unit.title] = engine.refusal(self.model, unit)
        return self._answers[unit.title]

    def _read_by_others(self) -> Mapping[str, set[str]]:
        """Return the values of each unit that other units or the caller read."""
        readers: dict[str, set[str]] = {value: {""} for value in self.model.main.results}
        for unit in self.units:
            for value in unit.reads:
                readers.setdefault(value, set()).add(unit.name)
        return {
            unit.name: {value for value in unit.writes if readers.get(value, set()) - {unit.name}}
            for unit in self.units
        }

    def refuse(self, refusals: Sequence[Refusal], part: Sequence[str]) -> None:
        """Record refusals of lowering; a node that belongs to no unit refuses its whole part."""
        owners = {value: unit.name for unit in self.units for value in unit.writes}
        names = {unit.name for unit in self.units}
        for refusal in refusals:
            name = refusal.node if refusal.node in names else owners.get(refusal.node)
            fresh = name is not None and name not in self.refused
            for unit in [name] if name is not None and fresh else part:
                self.refused.setdefault(unit, f"{refusal.op}: {refusal.reason}")

    def check(self, title: str) -> None:
        """Raise UnsupportedError if some units cannot run on any target."""
        support, engine = self.by_unit(), self.model.cpu_engine or NUMPY
        unsupported = [unit for unit in self.units if not _runs_somewhere(support[unit.name])]
        if unsupported:
            reasons = {unit.name: support[unit.name].reasons for unit in unsupported}
            refusals = [
                Refusal(u.name, u.title, f"{reasons[u.name][GPU]}; {reasons[u.name][engine]}")
                for u in unsupported
            ]
            count = "an operator" if len(unsupported) == 1 else f"{len(unsupported)} operators"
            what = f"{title} has {count} that no target can run"
            raise UnsupportedError(what, refusals, _fix(unsupported, self.engine))


def _runs_somewhere(support: UnitSupport) -> bool:
    return any(support.allows(target) for target in support.reasons)


def _fix(unsupported: Sequence[Unit], engine: CpuEngine | None) -> str:
    for unit in unsupported:
        if unit.foreign is not None and unit.title.startswith("CUSTOM "):
            name = unit.title.removeprefix("CUSTOM ")
            return registration_example(name, unit.foreign.inputs, unit.foreign.types)
    if engine is None or engine.installed():
        return "export the model with other operators: 'fourfold ops' lists the supported ones"
    return f"install {engine.title}, which runs most other operators: {engine.install}"
