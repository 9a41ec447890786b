"""List operators that can be read and written, and where a model's operators would run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from fourfold.compiler.placement import decide, read_problem
from fourfold.device import DeviceInfo
from fourfold.formats import formats
from fourfold.options import CompileOptions


@dataclass(frozen=True)
class FormatOperators:
    """Operators of a format that can be read, with their results, and ops that can be written
    to it.
    """

    name: str
    read: Mapping[str, str]
    written: Mapping[str, str]


@dataclass(frozen=True)
class ModelOperator:
    """A group of equal operators of a model: their number, where they run, and the fallback
    reason.
    """

    op: str
    count: int
    runs_on: str
    reason: str


def list_operators() -> tuple[FormatOperators, ...]:
    """Return the operators of every format that is read directly, by name."""
    return tuple(
        FormatOperators(form.name, form.operators(), form.written_ops())
        for _, form in sorted(formats().items())
        if form.converter is None
    )


def model_operators(
    model: str | bytes, title: str, device: DeviceInfo, options: CompileOptions
) -> tuple[ModelOperator, ...]:
    """Return the operators of a model, the most frequent first."""
    problem = read_problem(model, device, options, title=title)
    placement = decide(problem, {}).placement
    counts = Counter((row.op, placement.title(row.target), row.reason) for row in placement.rows)
    rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(ModelOperator(op, count, where, why) for (op, where, why), count in rows)
