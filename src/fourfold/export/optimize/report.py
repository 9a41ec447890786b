"""OptimizeReport: what changed, where the model runs, and how its outputs compare.

It also lists the operators of formats and of a model, and where these would run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fourfold.compiler.placement import decide, read_problem
from fourfold.device import DeviceInfo
from fourfold.export.optimize.answers import Answers
from fourfold.export.optimize.passes import PassResult
from fourfold.export.quantize.report import QuantizeReport
from fourfold.formats import formats
from fourfold.options import CompileOptions
from fourfold.plan.placement import Placement
from fourfold.support.display import html_table, shown


@dataclass(frozen=True)
class OptimizedModel:
    """The results for one model.

    Attributes:
        name: Name of the model.
        format: Format of the source.
        written_as: Format that the graph was written in; '' if the source was used unchanged.
        bytes_before: Size of the source.
        operators_before: Number of operators in the source.
        operators_after: Number of operators in the result.
        passes: Changes of each pass.
        fused: Changes of the passes before lowering, for prepared files.
        placement: Where operators run.
        answers: Comparison with the original model, if requested.
        quantization: Report of the quantization, if requested.
    """

    name: str
    format: str
    written_as: str
    bytes_before: int
    operators_before: int
    operators_after: int
    passes: tuple[PassResult, ...]
    fused: tuple[PassResult, ...]
    placement: Placement
    answers: Answers | None = None
    quantization: QuantizeReport | None = None

    @property
    def operator_counts(self) -> str:
        before, after = self.operators_before, self.operators_after
        return f"{before} operators" if after == before else f"{before} operators -> {after}"

    def to_json(self) -> dict[str, Any]:
        rows = {key: getattr(self, key) for key in self.__dataclass_fields__}
        rows["passes"] = [asdict(one) for one in self.passes]
        rows["fused"] = [asdict(one) for one in self.fused]
        rows["placement"] = self.placement.to_json()
        rows["answers"] = None if self.answers is None else self.answers.to_json()
        quantized = self.quantization
        rows["quantization"] = None if quantized is None else quantized.to_json()
        return rows


@dataclass(frozen=True)
class OptimizeReport:
    """The file that was written, and the models in it.

    Attributes:
        output: Path of the file.
        format: Format of the file.
        bytes_after: Size of the file.
        models: The results for each model.
        prepared: Plans of a prepared file, one row per device.
        seconds: Duration of the whole procedure.
    """

    output: str
    format: str
    bytes_after: int
    models: tuple[OptimizedModel, ...]
    prepared: Sequence[Mapping[str, Any]] = ()
    seconds: float = 0.0

    @property
    def bytes_before(self) -> int:
        return sum(model.bytes_before for model in self.models)

    @property
    def agrees(self) -> bool:
        """True if all compared outputs are within tolerance."""
        return all(model.answers is None or model.answers.agrees for model in self.models)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "output": self.output,
            "format": self.format,
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "seconds": self.seconds,
            "models": [model.to_json() for model in self.models],
            "prepared": [dict(row) for row in self.prepared],
        }

    @shown
    def __repr__(self) -> str:
        size = f"{self.bytes_before} bytes became {self.bytes_after}"
        return f"<OptimizeReport: {self.output}: {size}>"

    def _repr_html_(self) -> str:
        columns = ("model", "format", ">operators before", ">after", "placement")
        rows = [
            (
                *(one.name, one.format, one.operators_before, one.operators_after),
                one.placement.summary,
            )
            for one in self.models
        ]
        size = f"{self.bytes_before} bytes became {self.bytes_after}"
        return html_table(f"Optimized: {self.output}: {size}", columns, rows)

    @shown
    def __str__(self) -> str:
        lines = [f"{self.output}: {self.bytes_before} bytes -> {self.bytes_after}"]
        for model in self.models:
            lines.append(f"{model.name}: {model.operator_counts}")
            passes = (*model.passes, *model.fused)
            lines += [f"  {one.name}: {one.summary}" for one in passes if one.changes]
            lines += [] if model.quantization is None else [f"  {model.quantization}"]
            lines.append(f"  {model.placement.summary}")
            lines += [] if model.answers is None else [f"  {model.answers}"]
        return "\n".join(lines)


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
