"""A model in parts, made ready: each part on the GPU or on the CPU, and the reasons."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from fourfold.compile import Wish
from fourfold.cpu.litert import LitertEngine, Wire
from fourfold.cpu.reference import NumpyEngine
from fourfold.device import DeviceInfo
from fourfold.errors import InputError, UnsupportedError, nearest
from fourfold.formats import Model, read_model
from fourfold.graph import Graph
from fourfold.lower import make_plan
from fourfold.placing.judge import Judge
from fourfold.plan import Plan
from fourfold.players.probe import probed
from fourfold.rewrite import rewrite
from fourfold.split import (
    GPU,
    LITERT,
    PLACEMENTS,
    Choice,
    Costs,
    Engine,
    Limits,
    Part,
    Placement,
    Row,
    Runner,
    Step,
    Task,
    bind_units,
    choose_places,
)

MakePlayer = Callable[[Plan], Engine]


@dataclass(frozen=True)
class Wishes:
    """What a caller may ask of placement; see Session."""

    placement: str = "auto"
    strict: bool = False
    max_partitions: int | None = None
    threads: int | None = None
    on_fallback: Callable[[Row], None] | None = None
    reason: str = ""  # why everything is to be on the CPU, where the caller did not ask for it

    def __post_init__(self) -> None:
        if self.placement not in PLACEMENTS:
            what, why = f"there is no placement {self.placement!r}", "placements have names"
            raise InputError(what, why, nearest(str(self.placement), PLACEMENTS))
        if self.max_partitions is not None and self.max_partitions < 0:
            what = f"max_partitions is {self.max_partitions}"
            raise InputError(what, "it counts parts on the GPU", "pass 0 or more, or leave it out")

    @property
    def limits(self) -> Limits:
        return Limits(self.placement, self.max_partitions, self.reason)

    @property
    def workers(self) -> int:
        return self.threads or os.cpu_count() or 1


@dataclass(frozen=True)
class Situation:
    """A model on a device with its wishes: what placement is decided from."""

    model: Model
    title: str
    device: DeviceInfo
    wish: Wish
    wishes: Wishes

    @property
    def graph(self) -> Graph:
        return self.model.main


@dataclass(frozen=True)
class Decision:
    """Where everything runs, and the plans of the GPU's parts."""

    choice: Choice
    placement: Placement
    plans: Mapping[int, Plan]


def read_situation(
    source: str | bytes, title: str, device: DeviceInfo, wish: Wish, wishes: Wishes
) -> Situation:
    loaded = read_model(source, wish.shapes, foreign=True, quantized=wish.quantized)
    return Situation(loaded, title, device, wish, wishes)


def decide(situation: Situation, choices: Mapping[str, str]) -> Decision:
    """Chooses parts and plans them; what lowering refuses goes to the CPU, and it starts anew."""
    judge = Judge(situation.model)
    while True:
        judge.check(situation.title)
        task = _task(situation, judge)
        choice = choose_places(task, situation.wishes.limits)
        plans = _plans(situation, judge, choice, choices)
        if plans is not None:
            name = situation.device.name
            placement = Placement.of(task, choice, name, situation.wishes.placement)
            _tell(situation, placement)
            return Decision(choice, placement, plans)


def describe_whole(situation: Situation) -> Placement:
    """The placement of a model of which all runs on the device in one plan."""
    task = replace(_task(situation, Judge(situation.model)), bound=())
    choice = task.choice({unit.name: GPU for unit in task.units}, {})
    return Placement.of(task, choice, situation.device.name, situation.wishes.placement)


def _task(situation: Situation, judge: Judge) -> Task:
    origin = situation.model.origin
    return Task(
        graph=situation.graph,
        units=judge.units,
        verdicts=judge.verdicts(),
        costs=Costs.of(situation.graph, situation.device, situation.wishes.workers),
        bound=bind_units(judge.units, {} if origin is None else origin.states),
    )


def _plans(
    situation: Situation, judge: Judge, choice: Choice, choices: Mapping[str, str]
) -> Mapping[int, Plan] | None:
    """A plan for each part on the GPU; None where one was refused, which is noted."""
    plans: dict[int, Plan] = {}
    before = len(judge.refused)
    for number, part in enumerate(choice.parts):
        if part.place == GPU:
            graph = part.graph(situation.graph)
            try:
                plans[number] = make_plan_of(situation, graph, choices)
            except UnsupportedError as error:
                judge.refuse(error.refusals, part.names)
    return plans if len(judge.refused) == before else None


def make_plan_of(situation: Situation, graph: Graph, choices: Mapping[str, str]) -> Plan:
    device, options = probed(situation.device), situation.wish.options
    return make_plan(rewrite(graph), device, options, choices)


def _tell(situation: Situation, placement: Placement) -> None:
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


def make_runner(situation: Situation, decision: Decision, make_player: MakePlayer) -> Runner:
    """Engines for all parts, strung together."""
    graph, steps = situation.graph, []
    for number, part in enumerate(decision.choice.parts):
        if part.place == GPU:
            engine: Engine = make_player(decision.plans[number])
        elif part.place == LITERT:
            engine = _litert(situation, part)
        else:
            engine = NumpyEngine(part.graph(graph))
        steps.append(Step(part, engine))
    return Runner(steps, graph.arguments, graph.results, graph.types)


def _litert(situation: Situation, part: Part) -> LitertEngine:
    origin, types = situation.model.origin, situation.graph.types
    assert origin is not None

    def wire(value: str) -> Wire:
        number = origin.tensor(value)
        assert number is not None, f"'{value}' is no tensor of the file"
        return Wire(value, number, types.get(value), origin.grid(value))

    content = origin.write(part.names, part.inputs, part.outputs)
    inputs, outputs = [[wire(value) for value in ends] for ends in (part.inputs, part.outputs)]
    return LitertEngine(content, inputs, outputs, situation.wishes.workers)
