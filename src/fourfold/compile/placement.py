"""Decides which parts of a model run where, plans those on the GPU, and says why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace

from fourfold.compile import CompileOptions, Loaded, RecordedChoices, load_model
from fourfold.compile.support import SupportCheck
from fourfold.device import DeviceInfo
from fourfold.errors import InputError, UnsupportedError
from fourfold.formats import Model
from fourfold.graph import Graph
from fourfold.lower import make_plan
from fourfold.lower.specialise import has_quantised_steps
from fourfold.options import PlacementOptions
from fourfold.plan import Compiled, Plan, Port
from fourfold.plan.hybrid import HybridPart, HybridPlan, joined
from fourfold.plan.tensor_binding import TensorBinding
from fourfold.players import probe
from fourfold.rewrite import rewrite
from fourfold.rewrite.take_pixels import byte_type, take_pixels
from fourfold.split import (
    GPU,
    LITERT,
    Choice,
    Costs,
    Limits,
    Partition,
    Placement,
    Task,
    assign_units,
    bind_units,
)
from fourfold.types import TensorType


@dataclass(frozen=True)
class PlacementProblem:
    """A model on a device with its wishes: what placement is decided from."""

    loaded: Loaded
    title: str
    device: DeviceInfo
    wish: CompileOptions
    wishes: PlacementOptions

    @property
    def model(self) -> Model:
        return self.loaded.model

    @property
    def graph(self) -> Graph:
        """All of it as the file has it; what comes as bytes does so at the edge of each part."""
        return self.model.main

    def part_graph(self, part: Partition) -> Graph:
        return take_pixels(part.graph(self.graph), self.loaded.pictures)

    def type(self, value: str) -> TensorType:
        """What goes into a part, or out of it."""
        type_, pixels = self.graph.types[value], self.loaded.pictures.get(value)
        return type_ if pixels is None else byte_type(type_, pixels)


@dataclass(frozen=True)
class Decision:
    """Where everything runs, and the plans of the GPU's parts."""

    choice: Choice
    placement: Placement
    plans: Mapping[int, Plan]


def read_problem(
    source: str | bytes,
    title: str,
    device: DeviceInfo,
    wish: CompileOptions,
    wishes: PlacementOptions,
) -> PlacementProblem:
    return PlacementProblem(load_model(source, wish, foreign=True), title, device, wish, wishes)


def decide(situation: PlacementProblem, choices: Mapping[str, str]) -> Decision:
    """Chooses parts and plans them; what lowering refuses goes to the CPU, and it starts anew."""
    judge = SupportCheck(situation.model)
    while True:
        judge.check(situation.title)
        task = _task(situation, judge)
        choice = assign_units(task, _limits(situation.wishes))
        plans = _plans(situation, judge, choice, choices)
        if plans is not None:
            name = situation.device.name
            placement = Placement.of(task, choice, name, situation.wishes.placement)
            _tell(situation, placement)
            return Decision(choice, placement, plans)


def describe_whole(situation: PlacementProblem) -> Placement:
    """The placement of a model of which all runs on the device in one plan."""
    task = replace(_task(situation, SupportCheck(situation.model)), bound=())
    choice = task.choice({unit.name: GPU for unit in task.units}, {})
    return Placement.of(task, choice, situation.device.name, situation.wishes.placement)


def _limits(wishes: PlacementOptions) -> Limits:
    return Limits(wishes.placement, wishes.max_partitions, wishes.reason)


def _task(situation: PlacementProblem, judge: SupportCheck) -> Task:
    origin = situation.model.source_graph
    return Task(
        graph=situation.graph,
        units=judge.units,
        verdicts=judge.verdicts(),
        costs=Costs.of(situation.graph, situation.device, situation.wishes.workers),
        bound=bind_units(judge.units, {} if origin is None else origin.states),
    )


def _plans(
    situation: PlacementProblem, judge: SupportCheck, choice: Choice, choices: Mapping[str, str]
) -> Mapping[int, Plan] | None:
    """A plan for each part on the GPU; None where one was refused, which is noted."""
    plans: dict[int, Plan] = {}
    before = len(judge.refused)
    for number, part in enumerate(choice.parts):
        if part.target == GPU:
            try:
                plans[number] = make_plan_of(situation, situation.part_graph(part), choices)
            except UnsupportedError as error:
                judge.refuse(error.refusals, part.names)
    return plans if len(judge.refused) == before else None


def make_plan_of(situation: PlacementProblem, graph: Graph, choices: Mapping[str, str]) -> Plan:
    graph, options = rewrite(graph), situation.wish.options
    device = probe(situation.device, has_quantised_steps(graph))
    return make_plan(graph, device, options, choices)


def _tell(situation: PlacementProblem, placement: Placement) -> None:
    """Says what stays on the CPU: as an error to the strict, else to who wants to know."""
    if situation.wishes.strict and not placement.whole:
        why = [f"{row.op} '{row.name}': {row.reason}" for row in placement.fallbacks]
        raise InputError(
            f"{situation.title} does not run wholly on {situation.device.name}",
            f"strict=True was asked for, and these stay on the CPU: {'; '.join(why)}",
            "leave strict out, or see 'fourfold check' for what could be changed",
        )
    if situation.wishes.on_fallback is not None:
        for row in placement.fallbacks:
            situation.wishes.on_fallback(row)


def compile_hybrid(situation: PlacementProblem, choices: Mapping[str, str]) -> HybridPlan:
    """A model placed, planned and written down, each part as what its engine needs."""
    asked = RecordedChoices(choices)
    decision = decide(situation, asked)
    model, graph = situation.model, situation.graph
    parts = []
    for number, part in enumerate(decision.choice.parts):
        head = (part.target, part.inputs, part.outputs)
        if part.target == GPU:
            parts.append(HybridPart(*head, plan=decision.plans[number]))
        elif part.target == LITERT:
            parts.append(_in_litert(situation, part))
        else:
            parts.append(HybridPart(*head, graph=situation.part_graph(part)))
    ends = (_ports(situation, graph.arguments), _ports(situation, graph.results))
    plan = joined(graph.name, list(decision.plans.values()), ends, situation.wish.precision)
    names = (model.input_names, model.output_names)
    loaded = situation.loaded
    compiled = Compiled(plan, *names, asked.answers, loaded.open_sizes, pixels=loaded.pixels)
    crossing = {
        name: situation.type(name) for part in parts for name in part.inputs if name in graph.types
    }
    return HybridPlan(tuple(parts), crossing, compiled, asdict(decision.placement))


def _in_litert(situation: PlacementProblem, part: Partition) -> HybridPart:
    origin, types = situation.model.source_graph, situation.graph.types
    assert origin is not None

    def binding(value: str) -> TensorBinding:
        number = origin.tensor(value)
        assert isinstance(number, int), f"'{value}' is no tensor that LiteRT has a number for"
        pixels = situation.loaded.pictures.get(value)
        return TensorBinding(value, number, types.get(value), origin.grid(value), pixels)

    content = origin.write(part.names, part.inputs, part.outputs)
    bindings = (tuple(map(binding, part.inputs)), tuple(map(binding, part.outputs)))
    return HybridPart(part.target, part.inputs, part.outputs, content=content, bindings=bindings)


def _ports(situation: PlacementProblem, names: Iterable[str]) -> tuple[Port, ...]:
    grids = situation.graph.quantization
    return tuple(Port(name, situation.type(name), 0, grids.get(name)) for name in names)
