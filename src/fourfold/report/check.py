"""Looks at a model without running it: where its parts would run, why, and what to change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from fourfold.compile import load_model, prepare_lowering
from fourfold.compile.placement import (
    Decision,
    PlacementProblem,
    decide,
    describe_whole,
    read_problem,
)
from fourfold.device import DeviceInfo
from fourfold.errors import UnsupportedError
from fourfold.metadata import ModelMetadata, Signature
from fourfold.options import CompileOptions, PlacementOptions
from fourfold.placement import Placement
from fourfold.report.advice import Advice, Subject, advise
from fourfold.split import Costs


@dataclass(frozen=True)
class Report:
    """Where a model would run on a device, and advice."""

    placement: Placement
    advice: tuple[Advice, ...]
    metadata: ModelMetadata
    signatures: Mapping[str, Signature]

    def to_json(self) -> dict[str, Any]:
        advice = [asdict(item) for item in self.advice]
        return {"placement": self.placement.to_json(), "advice": advice}


def check_model(
    source: str | bytes,
    title: str,
    device: DeviceInfo,
    options: CompileOptions,
    origin: str = "",
) -> Report:
    """What a session without further options would do with a model on a device with these facts;
    `origin` says who converted it, if anybody did.
    """
    problem = read_problem(source, title, device, options, PlacementOptions(), origin)
    decision = decide(problem, {})
    subject = _subject(problem, decision)
    if not decision.placement.whole:
        subject = _as_whole(source, problem, subject)
    model = problem.model
    return Report(subject.placement, tuple(advise(subject)), model.metadata, model.signatures)


def _as_whole(source: str | bytes, problem: PlacementProblem, in_parts: Subject) -> Subject:
    """The same model in one plan, where that can be: only there variables are the device's."""
    options = problem.compile_options
    try:
        lowering = prepare_lowering(load_model(source, options).graph, problem.device, options)
        plan = lowering.plan()
    except UnsupportedError:
        return in_parts
    placement = describe_whole(problem)
    return replace(in_parts, graphs=(lowering.graph,), plans=(plan,), placement=placement)


def _subject(problem: PlacementProblem, decision: Decision) -> Subject:
    parts, threads = decision.planned.values(), problem.placement_options.thread_count
    return Subject(
        graphs=tuple(part.lowering.graph for part in parts),
        plans=tuple(part.plan for part in parts),
        placement=decision.placement,
        costs=Costs.of(problem.graph, problem.device, threads, problem.model.cpu_engine),
        open_inputs=open_inputs(problem),
    )


def open_inputs(problem: PlacementProblem) -> Mapping[str, tuple[int, ...]]:
    """Inputs whose sizes the file leaves open and the caller did not set."""
    found = zip(problem.graph.arguments, problem.model.open_sizes, strict=False)
    given = problem.compile_options.shapes
    return {name: sizes for name, sizes in found if sizes and name not in given}
