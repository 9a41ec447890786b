"""Looks at a model without running it: where its parts would run, why, and what to change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from fourfold.compile import CompileOptions
from fourfold.compile.placement import (
    Decision,
    PlacementProblem,
    decide,
    describe_whole,
    read_problem,
)
from fourfold.device import DeviceInfo
from fourfold.errors import UnsupportedError
from fourfold.formats import ReadOptions, read_model
from fourfold.lower import make_plan
from fourfold.lower.specialise import has_quantised_steps
from fourfold.options import PlacementOptions
from fourfold.players import probe
from fourfold.report.advice import Advice, Subject, advise
from fourfold.rewrite import rewrite
from fourfold.split import GPU, Costs, Placement


@dataclass(frozen=True)
class Report:
    """Where a model would run on a device, and advice."""

    placement: Placement
    advice: tuple[Advice, ...]

    def to_json(self) -> dict[str, Any]:
        advice = [asdict(item) for item in self.advice]
        return {"placement": self.placement.to_json(), "advice": advice}


def check_model(
    source: str | bytes, title: str, device: DeviceInfo, wish: CompileOptions
) -> Report:
    """What `placement='auto'` would do with a model on a device with these facts."""
    situation = read_problem(source, title, device, wish, PlacementOptions())
    decision = decide(situation, {})
    subject = _subject(situation, decision)
    if not decision.placement.whole:
        subject = _whole(source, situation, subject)
    return Report(subject.placement, tuple(advise(subject)))


def _whole(source: str | bytes, situation: PlacementProblem, parted: Subject) -> Subject:
    """The same model in one plan, where that can be: only there variables are the device's."""
    wish = situation.wish
    try:
        options = ReadOptions(wish.shapes, quantized=wish.quantized, follow_batch=wish.follow)
        graph = rewrite(read_model(source, options).main)
        plan = make_plan(graph, probe(situation.device, has_quantised_steps(graph)), wish.options)
    except UnsupportedError:
        return parted
    placement = describe_whole(situation)
    return replace(parted, graphs=(graph,), plans=(plan,), placement=placement)


def _subject(situation: PlacementProblem, decision: Decision) -> Subject:
    parts = [part for part in decision.choice.parts if part.target == GPU]
    return Subject(
        graphs=tuple(rewrite(part.graph(situation.graph)) for part in parts),
        plans=tuple(decision.plans.values()),
        placement=decision.placement,
        costs=Costs.of(situation.graph, situation.device, situation.wishes.workers),
        open_inputs=_open_inputs(situation),
    )


def _open_inputs(situation: PlacementProblem) -> Mapping[str, tuple[int, ...]]:
    """Inputs whose sizes the file leaves open and the caller did not set."""
    found = zip(situation.graph.arguments, situation.model.open_sizes, strict=False)
    given = situation.wish.shapes
    return {name: sizes for name, sizes in found if sizes and name not in given}
