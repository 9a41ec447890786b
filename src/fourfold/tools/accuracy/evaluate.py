"""Measure the accuracy of a session, of the reference runtime and of a float model on a dataset."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from fourfold.backends.cpu.protocol import CpuEngine
from fourfold.compiler.load import load_model
from fourfold.config import Config
from fourfold.errors import InputError
from fourfold.options import SessionOptions
from fourfold.processing.pictures import require_pillow
from fourfold.processing.pixels.stated import StatedPixels
from fourfold.runtime.opening import Model, model_reader, model_title, path_or_bytes
from fourfold.session import Session
from fourfold.support.progress import Progress, ProgressOption, followed
from fourfold.tools.accuracy.accuracy import DEVICE, FLOAT, REFERENCE, Accuracy, AccuracyRun
from fourfold.tools.accuracy.classification import ClassificationTask, Guess
from fourfold.tools.accuracy.contender import (
    Contender,
    EngineRun,
    answer_all,
    read_frames,
    require_picture,
    run_session,
)
from fourfold.tools.accuracy.dataset import Dataset, LabelledPicture, PathOption, read_dataset
from fourfold.tools.accuracy.detection import DetectionTask
from fourfold.tools.report.rival import find_rival
from fourfold.vision.describe import describe_model
from fourfold.vision.read import check_labels

_MAX_LISTED = 3  # files in a note


@dataclass(frozen=True)
class DatasetOptions:
    """A dataset and how accuracy is measured on it; see `fourfold.verify`."""

    dataset: PathOption
    images: PathOption | None = None
    labels: Sequence[str] = ()
    float_model: Model | None = None
    limit: int | None = None
    score: float | None = None
    stated: StatedPixels | None = None
    seed: int = 0


OPTION_NAMES = tuple(
    one.name for one in fields(DatasetOptions) if one.name not in ("dataset", "seed")
)


class Reference(NamedTuple):
    """The CPU runtime that a session is compared with, and its model."""

    engine: CpuEngine
    content: str | bytes
    threads: int | None


def measure_accuracy(
    session: Session,
    reference: Reference,
    options: DatasetOptions,
    progress: ProgressOption | None = None,
) -> Accuracy:
    """Return the accuracy of a session and of its reference runtime.

    Everything that can be wrong with the dataset is checked before the first run. A
    KeyboardInterrupt ends the measurement; the result then has the pictures so far.
    """
    require_pillow("the pictures of a dataset cannot be read")
    dataset = read_dataset(options.dataset, options.images)
    contenders = _find_contenders(session, reference, options)
    labels = tuple(options.labels)
    for one in contenders if labels else ():
        check_labels(one.model, labels)
    task: ClassificationTask | DetectionTask
    if dataset.has_boxes:
        task = DetectionTask(dataset, contenders, labels, options.score)
    else:
        task = ClassificationTask(dataset, contenders, labels)
    evaluation = _Evaluation(contenders, task, dataset.sample(options.limit, options.seed))
    with followed(progress, "pictures") as report:
        evaluation.run(report)
    return evaluation.result(session, dataset)


def _find_contenders(
    session: Session, reference: Reference, options: DatasetOptions
) -> list[Contender]:
    picture = require_picture(session, options.stated)
    engine, content, threads = reference
    again = EngineRun(engine, content, session, threads)
    contenders = [
        Contender(DEVICE, "fourfold", session, picture, run_session(session, picture.name)),
        Contender(REFERENCE, engine.title, session, picture, again),
    ]
    if options.float_model is not None:
        contenders.append(_float_contender(options.float_model, options.stated, threads))
    return contenders


def _float_contender(source: Model, stated: StatedPixels | None, threads: int | None) -> Contender:
    """Return the float model in the CPU runtime of its own format."""
    config, given = Config.from_environment(), path_or_bytes(source)
    content = model_reader(given, None, config)().content
    loaded = load_model(content, SessionOptions(follow_batch=False).compile_options(config))
    title = "" if isinstance(given, bytes) else model_title(given, None)
    model, (engine, _) = describe_model(loaded.model, title), find_rival(content)
    run = EngineRun(engine, content, model, threads)
    return Contender(
        FLOAT, f"float model, {engine.title}", model, require_picture(model, stated), run
    )


@dataclass
class _Evaluation:
    """Answers of all contenders about the pictures so far."""

    contenders: Sequence[Contender]
    task: ClassificationTask | DetectionTask
    pictures: Sequence[LabelledPicture]
    judged: list[LabelledPicture] = field(default_factory=list)
    outcomes: list[tuple[Any, ...]] = field(default_factory=list)  # by picture and contender
    unreadable: list[LabelledPicture] = field(default_factory=list)
    stopped: bool = False

    def run(self, report: Progress | None) -> None:
        """Judge all pictures, or those until a KeyboardInterrupt."""
        began, total, error = time.monotonic(), len(self.pictures), None
        try:
            for done, picture in enumerate(self.pictures):
                if report is not None:
                    left = (time.monotonic() - began) / max(done, 1) * (total - done)
                    report(done, total, f"{done} of {total}", left if done else 0.0)
                try:
                    frames = read_frames(self.contenders, picture.path)
                except InputError as caught:
                    error = caught
                    self.unreadable.append(picture)
                    continue
                self._judge(picture, answer_all(self.contenders, frames, self.task.limits))
        except KeyboardInterrupt:
            if not self.outcomes:
                raise
            self.stopped = True
        if error is not None and not self.outcomes:
            raise error

    def _judge(self, picture: LabelledPicture, answers: Sequence[Any]) -> None:
        row = tuple(self.task.judge(place, picture, one) for place, one in enumerate(answers))
        self.judged.append(picture)
        self.outcomes.append(row)

    def result(self, session: Session, dataset: Dataset) -> Accuracy:
        judged = zip(self.judged, self.outcomes, strict=True)
        differing = (one.path for one, row in judged if _best(row[0]) != _best(row[1]))
        return Accuracy(
            session.title or "the model",
            str(dataset.path),
            str(session.device),
            session.precision,
            tuple(self._run(place) for place in range(len(self.contenders))),
            len(self.outcomes),
            len(self.pictures),
            self.contenders[0].picture.to_json(),
            tuple(_relative(one, dataset.path) for one in differing),
            (*dataset.notes, *self._unreadable_note(), *self.task.notes),
            self.stopped,
        )

    def _run(self, place: int) -> AccuracyRun:
        mine, contender = [row[place] for row in self.outcomes], self.contenders[place]
        same = None
        if place and isinstance(self.task, ClassificationTask):
            same = sum(_best(row[0]) == _best(row[place]) for row in self.outcomes) / len(mine)
        scores, classes = self.task.scores(place, mine), self.task.classes(place, mine)
        return AccuracyRun(contender.role, contender.title, scores, classes, same)

    def _unreadable_note(self) -> tuple[str, ...]:
        if not self.unreadable:
            return ()
        names = ", ".join(one.path.name for one in self.unreadable[:_MAX_LISTED])
        more = len(self.unreadable) - _MAX_LISTED
        listed = f"{names} and {more} more" if more > 0 else names
        return (f"left out, because they cannot be read as pictures: {listed}",)


def _best(outcome: Any) -> str:
    """Return the best class of a guess; '' for detections, which are not compared."""
    return outcome.best if isinstance(outcome, Guess) else ""


def _relative(path: Any, root: Any) -> str:
    with suppress(ValueError):
        return str(path.relative_to(root))
    return str(path)
