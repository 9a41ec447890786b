"""Looks at a model without running it: where its parts would run, why, and what to change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fourfold.compiler.partition import Costs
from fourfold.compiler.placement import Decision, PlacementProblem, decide, read_problem
from fourfold.device import DeviceInfo
from fourfold.graph.metadata import ModelMetadata, Signature
from fourfold.options import CompileOptions, PlacementOptions
from fourfold.plan.placement import Placement
from fourfold.tools.report.advice import Advice, Subject, advise


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
    placement: PlacementOptions | None = None,
    origin: str = "",
) -> Report:
    """Place a model on a device without running it, and report where it would run, with advice.
    `origin` names the framework and converter of a converted model.
    """
    problem = read_problem(source, device, options, placement, title=title, origin=origin)
    decision = decide(problem, {})
    subject, model = _subject(decision), problem.model
    return Report(decision.placement, tuple(advise(subject)), model.metadata, model.signatures)


def _subject(decision: Decision) -> Subject:
    problem, parts = decision.problem, decision.lowered.values()
    threads = problem.placement_options.thread_count
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
