"""Placement: where each operator of a model runs and why, as a table, as JSON and as HTML."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fourfold.errors import MALFORMED, ModelError, Refusal, UnsupportedError
from fourfold.plan.targets import GPU, NUMPY
from fourfold.support.display import escape_html, html_table, visible
from fourfold.support.records import read_typed

_DEVICES = {"gpu": "GPU", "cpu": "CPU device"}  # by kind


@dataclass(frozen=True)
class OperatorPlacement:
    """One operator of the model: its target, its estimated time, and why it is not on the GPU."""

    name: str
    op: str
    target: str
    part: int
    seconds: float
    reason: str = ""
    able: bool = True  # whether it could also run on the GPU


@dataclass(frozen=True)
class PartPlacement:
    """One part: the number of operators, their time, and the values that cross its border."""

    target: str
    operators: int
    seconds: float
    transfer: float
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Placement:
    """The target of every operator of a model. Times are estimates, in seconds.

    `engine` is the name of the CPU engine of the model's format, '' if it has none. `origin`
    describes the conversion if the model was converted from another format. `kind` is that of the
    device.
    """

    device: str
    placement: str
    rows: tuple[OperatorPlacement, ...]
    parts: tuple[PartPlacement, ...]
    cpu_seconds: float = 0.0
    engine: str = ""
    origin: str = ""
    kind: str = "gpu"

    def to_bytes(self) -> bytes:
        """Return the placement as it is stored in files; `from_bytes` reads it."""
        # `vars` has the fields of the dataclasses; `default` is called for nested ones.
        text = json.dumps(vars(self), separators=(",", ":"), ensure_ascii=False, default=vars)
        return text.encode()

    @staticmethod
    def from_bytes(content: bytes) -> Placement:
        """Read what `to_bytes` wrote."""
        try:
            placement: Placement = read_typed(Placement, json.loads(content), "placement")
        except MALFORMED as error:
            why = f"its placement record is malformed: {error!r}"
            fix = "copy or prepare the file again"
            raise ModelError("the compiled model is damaged", why, fix) from error
        return placement

    @property
    def seconds(self) -> float:
        """Estimated time of a run, including transfers."""
        return sum(part.seconds + part.transfer for part in self.parts)

    @property
    def on_gpu(self) -> int:
        return sum(row.target == GPU for row in self.rows)

    @property
    def whole(self) -> bool:
        """True if all operators run on the GPU."""
        return self.on_gpu == len(self.rows)

    def why_not_whole(self, title: str) -> UnsupportedError:
        """Return the error for a model that has to run whole on the device and does not."""
        unable = [row for row in self.fallbacks if not row.able]
        rows = unable or self.fallbacks
        refusals = [Refusal(row.name, row.op, row.reason) for row in rows]
        what = f"{title} does not run whole on {self.device}"
        return UnsupportedError(what, refusals, "see 'fourfold check' for what could be changed")

    @property
    def share(self) -> float:
        """Fraction of the estimated time, without transfers, that is spent on the GPU."""
        total = sum(row.seconds for row in self.rows)
        return sum(row.seconds for row in self.rows if row.target == GPU) / total if total else 1.0

    @property
    def summary(self) -> str:
        count, parts = len(self.rows), len(self.parts)
        if self.whole and count == 1:
            return f"its only operator runs on {self.device}"
        if self.whole:
            return f"all {count} operators run on {self.device}"
        if not self.on_gpu:
            none = "" if self.placement == "cpu" else f", none on {self.device}"
            return f"all {count} operators run on the CPU{none}"
        where = f"{self.on_gpu} of {count} operators run on {self.device}"
        return f"{where} ({self.share:.0%} of the estimated time), in {parts} parts"

    @property
    def fallbacks(self) -> tuple[OperatorPlacement, ...]:
        return tuple(row for row in self.rows if row.target != GPU)

    def title(self, target: str) -> str:
        """Return the display name of a target, such as 'GPU' or 'CPU (LiteRT)'. A device may be a
        CPU, too.
        """
        if target == GPU:
            return _DEVICES.get(self.kind, "device")
        return "CPU (NumPy)" if target == NUMPY else f"CPU ({self.engine or target})"

    def lines(self) -> Iterator[str]:
        yield self.summary
        if self.origin:
            yield f"  {self.origin}"
        for number, part in enumerate(self.parts):
            names = f"{_listed(part.inputs)} -> {_listed(part.outputs)}"
            title = f"{number}: {self.title(part.target)}, {part.operators} operators"
            times = f"{part.seconds * 1e3:.3f} ms + {part.transfer * 1e3:.3f} ms transfer"
            yield f"  part {title}, about {times}: {names}"
        for (op, target, reason), rows in self.grouped():
            names = _listed([row.name for row in rows])
            yield f"  {self.title(target)}: {len(rows)} × {op} ({names}): {reason}"

    def grouped(self) -> Sequence[tuple[tuple[str, str, str], list[OperatorPlacement]]]:
        """Group the operators that are not on the GPU by operator and reason; those that could run
        there by reason only.
        """
        groups: dict[tuple[str, str, str], list[OperatorPlacement]] = {}
        for row in sorted(self.fallbacks, key=lambda row: row.able):
            op = "others" if row.able else row.op
            groups.setdefault((op, row.target, row.reason), []).append(row)
        return list(groups.items())

    def __str__(self) -> str:
        return visible("\n".join(self.lines()))

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        totals = {"operators": len(self.rows), "on_gpu": self.on_gpu, "share": self.share}
        times = {"seconds": self.seconds, "cpu_seconds": self.cpu_seconds}
        return {"summary": self.summary, **totals, **times, **asdict(self)}

    def __repr__(self) -> str:
        return visible(f"<Placement: {self.summary}>")

    def _repr_html_(self) -> str:
        """Return a table of the operators that are not on the GPU, with reasons, and a collapsed
        table of all operators.
        """
        title = f"{self.summary}; {self.origin}" if self.origin else self.summary
        groups = [
            (self.title(target), len(rows), op, _listed([row.name for row in rows]), reason)
            for (op, target, reason), rows in self.grouped()
        ]
        names = ("where", ">operators", "op", "names", "why")
        apart = html_table(title, names, groups) if groups else f"<p>{escape_html(title)}</p>"
        every = html_table("", ("operator", "op", "where", ">ms", "why"), map(self._row, self.rows))
        return f"{apart}<details><summary>{len(self.rows)} operators</summary>{every}</details>"

    def _row(self, row: OperatorPlacement) -> tuple[str, ...]:
        return row.name, row.op, self.title(row.target), f"{row.seconds * 1e3:.4f}", row.reason


def _listed(names: Sequence[str], limit: int = 3) -> str:
    """Return the first names, each without the suffixes that exporters append."""
    text = ", ".join(name.split(";")[0] for name in names[:limit])
    return f"{text}, …" if len(names) > limit else text
