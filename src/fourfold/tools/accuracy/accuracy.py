"""Accuracy: top-1 and top-5, or mean average precision, of a model on a dataset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from fourfold.support.display import count_text, html_table

DEVICE, REFERENCE, FLOAT = "device", "reference", "float"  # the roles of runs
MAX_DROP = 0.01  # a device may be this much, or one picture, below the reference runtime


@dataclass(frozen=True)
class AccuracyRun:
    """The accuracy of a model in one runtime.

    Attributes:
        role: 'device', 'reference' for the same model in its format's CPU runtime, or 'float' for
            the float model in its CPU runtime.
        title: Name of the runtime.
        scores: 'top-1' and 'top-5', or 'mAP' (IoU from 0.50 to 0.95) and 'mAP 50', from 0 to 1.
        classes: Top-1 or mAP of each class in the dataset.
        same: Share of pictures with the same best class as on the device; None for detectors.
    """

    role: str
    title: str
    scores: Mapping[str, float]
    classes: Mapping[str, float] = field(default_factory=dict, repr=False)
    same: float | None = None


@dataclass(frozen=True)
class Accuracy:
    """The accuracy of a model on a dataset: on the device, in the reference runtime, and that of
    the float model if the caller passed one.

    Attributes:
        model: Name of the model.
        dataset: Path of the dataset.
        device: The device.
        precision: The precision on the device.
        runs: The accuracy on the device, and in other runtimes.
        pictures: Number of pictures that the accuracy was measured on.
        total: Number of pictures to measure; more than `pictures` after an interrupt.
        preprocessing: How pictures were converted, as plain data.
        differing: Pictures with another best class on the device than in the reference runtime.
        notes: What was left out, and which assumptions were made.
    """

    model: str
    dataset: str
    device: str
    precision: str
    runs: tuple[AccuracyRun, ...]
    pictures: int
    total: int
    preprocessing: Mapping[str, Any] = field(default_factory=dict, repr=False)
    differing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    stopped: bool = False  # by Ctrl-C

    @property
    def on_device(self) -> AccuracyRun:
        return self._run(DEVICE)

    @property
    def in_reference(self) -> AccuracyRun:
        return self._run(REFERENCE)

    @property
    def of_float_model(self) -> AccuracyRun | None:
        return next((one for one in self.runs if one.role == FLOAT), None)

    def _run(self, role: str) -> AccuracyRun:
        return next(one for one in self.runs if one.role == role)

    @property
    def differences(self) -> dict[str, dict[str, float]]:
        """Scores on the device minus those of each other run, by its role."""
        mine = self.on_device.scores
        return {
            one.role: {name: mine[name] - score for name, score in one.scores.items()}
            for one in self.runs
            if one.role != DEVICE
        }

    @property
    def agrees(self) -> bool:
        """True if no score on the device is more than 0.01, or one picture, below that of the
        reference runtime.
        """
        allowed = max(MAX_DROP, 1 / max(self.pictures, 1)) + 1e-9
        return all(one >= -allowed for one in self.differences[REFERENCE].values())

    @property
    def summary(self) -> str:
        """The verdict in one sentence."""
        words = "as accurate as" if self.agrees else "less accurate than"
        return f"{words} {self.in_reference.title}: {_difference(self.differences[REFERENCE])}"

    @property
    def title(self) -> str:
        """The model, the dataset and the number of pictures."""
        count = count_text(self.pictures, "picture")
        part = f"{self.pictures} of {self.total} pictures" if self.stopped else count
        return f"{self.model}, {part} of {self.dataset}"

    def to_json(self) -> dict[str, Any]:
        """Return the accuracy as plain data."""
        return {**asdict(self), "agrees": self.agrees, "differences": self.differences}

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return the names of columns and the cells of rows. Numbers are percentages."""
        names = tuple(self.on_device.scores)
        with_same = any(one.same is not None for one in self.runs)
        columns = ("run", *(f">{name}" for name in names), *((">same top-1",) if with_same else ()))
        rows = []
        for one in self.runs:
            same = ("-" if one.same is None else f"{one.same:.1%}",) if with_same else ()
            rows.append((one.title, *(f"{one.scores[name]:.1%}" for name in names), *same))
        return columns, rows

    def lines(self) -> Iterator[str]:
        """Yield the verdict, the difference from the float model, and notes."""
        yield self.summary
        if FLOAT in self.differences:
            yield f"compared with the float model: {_difference(self.differences[FLOAT])}"
        if self.differing:
            more = f" and {len(self.differing) - 3} more" if len(self.differing) > 3 else ""
            yield f"another best class than the reference: {', '.join(self.differing[:3])}{more}"
        yield from self.notes

    def __str__(self) -> str:
        columns, rows = self.table()
        cells = [tuple(one.lstrip(">") for one in columns), *rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        table = [
            "  ".join(
                cell.rjust(width) if name.startswith(">") else cell.ljust(width)
                for cell, width, name in zip(row, widths, columns, strict=True)
            )
            for row in cells
        ]
        where = f"{self.precision} on {self.device}"
        return "\n".join([self.title, where, *table, *self.lines()])

    def __repr__(self) -> str:
        return f"<Accuracy: {self.title}, {self.summary}>"

    def _repr_html_(self) -> str:
        title = f"{self.title}, {self.precision} on {self.device}: {self.summary}"
        return html_table(title, *self.table())


def _difference(scores: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {100 * one:+.1f} points" for name, one in scores.items())
