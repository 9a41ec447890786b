"""Which operators can be read and written at all, and where those of a model would run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from fourfold.compile.placement import decide, read_problem
from fourfold.device import DeviceInfo
from fourfold.formats import formats
from fourfold.options import CompileOptions


@dataclass(frozen=True)
class FormatOperators:
    """The operators of a format that are read, each with what it becomes, and the ops that are
    written as its operators, each with what is written.
    """

    name: str
    read: Mapping[str, str]
    written: Mapping[str, str]


@dataclass(frozen=True)
class ModelOperator:
    """Some operators of a model that are alike: how many, where they would run, and why not on the
    GPU.
    """

    op: str
    count: int
    runs_on: str
    reason: str


def list_operators() -> tuple[FormatOperators, ...]:
    """Every format by name, but those whose models are converted before they are read."""
    return tuple(
        FormatOperators(form.name, form.operators(), form.written_ops())
        for _, form in sorted(formats().items())
        if form.converter is None
    )


def model_operators(
    model: str | bytes, title: str, device: DeviceInfo, options: CompileOptions
) -> tuple[ModelOperator, ...]:
    """The operators of a model, those that are many first."""
    problem = read_problem(model, device, options, title=title)
    placement = decide(problem, {}).placement
    counts = Counter((row.op, placement.title(row.target), row.reason) for row in placement.rows)
    rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(ModelOperator(op, count, where, why) for (op, where, why), count in rows)
