"""Looks at a model without running it: where its parts would run, why, and what to change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fourfold.compile import Wish
from fourfold.device import DeviceInfo
from fourfold.placing.deciding import Decision, Situation, decide, read_situation
from fourfold.placing.wishes import Wishes
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


def check_model(source: str | bytes, title: str, device: DeviceInfo, wish: Wish) -> Report:
    """What `placement='auto'` would do with a model on a device with these facts."""
    situation = read_situation(source, title, device, wish, Wishes())
    decision = decide(situation, {})
    subject = _subject(situation, decision)
    return Report(decision.placement, tuple(advise(subject)))


def _subject(situation: Situation, decision: Decision) -> Subject:
    parts = [part for part in decision.choice.parts if part.place == GPU]
    return Subject(
        graphs=tuple(rewrite(part.graph(situation.graph)) for part in parts),
        plans=tuple(decision.plans.values()),
        placement=decision.placement,
        costs=Costs.of(situation.graph, situation.device, situation.wishes.workers),
        open_inputs=_open_inputs(situation),
    )


def _open_inputs(situation: Situation) -> Mapping[str, tuple[int, ...]]:
    """Inputs whose sizes the file leaves open and the caller did not set."""
    origin = situation.model.origin
    if origin is None:
        return {}
    found = {name: origin.signature(name) for name in situation.graph.arguments}
    given = situation.wish.shapes
    return {name: shape for name, shape in found.items() if shape and name not in given}
