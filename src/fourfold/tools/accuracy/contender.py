"""Contender: a model in one runtime, which answers what it sees in a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fourfold.errors import InputError
from fourfold.processing.pictures import read_picture
from fourfold.vision.answer import Answer
from fourfold.vision.preprocessing import find_picture_input
from fourfold.vision.read import read_answer

if TYPE_CHECKING:
    from pathlib import Path

    from fourfold.backends.cpu.protocol import CpuEngine, RunModel
    from fourfold.processing.pixels.stated import StatedPixels
    from fourfold.session import Session
    from fourfold.vision.meaning import Described
    from fourfold.vision.preprocessing import PictureInput

Run = Callable[[np.ndarray], Mapping[str, np.ndarray]]


class AnswerLimits(NamedTuple):
    """Class labels, number of classes and minimum score of answers."""

    labels: Sequence[str]
    top: int
    score: float


class Contender(NamedTuple):
    """A model in one runtime: its role, title and description, the input that takes pictures, and
    the function that runs it.
    """

    role: str
    title: str
    model: Described
    picture: PictureInput
    run: Run


Frames = Mapping[int, np.ndarray]


def read_frames(contenders: Sequence[Contender], path: Path) -> Frames:
    """Read a picture with each number of channels that contenders take."""
    channels = {one.picture.channels for one in contenders}
    return {count: read_picture(path, count) for count in channels}


def answer_all(
    contenders: Sequence[Contender], frames: Frames, limits: AnswerLimits
) -> tuple[Answer, ...]:
    """Return the answers of all contenders about one picture, which is converted once for all that
    take it in the same way.
    """
    arrays: dict[int, np.ndarray] = {}
    answers = []
    for one in contenders:
        frame, key = frames[one.picture.channels], id(one.picture)
        if key not in arrays:
            arrays[key] = one.picture.array(frame)
        answer = read_answer(
            one.model,
            one.run(arrays[key]),
            limits.labels,
            top=limits.top,
            score=limits.score,
            fit=one.picture.fit(frame),
            frame=(frame.shape[0], frame.shape[1]),
        )
        answers.append(answer)
    return tuple(answers)


def require_picture(model: Described, stated: StatedPixels | None) -> PictureInput:
    """Return the input of a model that takes pictures. Raises InputError if it takes none."""
    picture = find_picture_input(model, stated) if len(model.inputs) == 1 else None
    if picture is None:
        shapes = ", ".join(f"{info.name} {list(info.shape)}" for info in model.inputs)
        what, why = "the model does not take pictures", f"its inputs are {shapes}"
        raise InputError(what, why, "measure a model whose only input is a picture")
    return picture


def run_session(session: Session, name: str) -> Run:
    """Return a function that runs a session on a picture."""
    return lambda array: session.run({name: array})


class EngineRun:
    """Runs a model in a CPU engine. The engine is opened at the first picture, once."""

    def __init__(
        self, engine: CpuEngine, content: str | bytes, model: Described, threads: int | None
    ) -> None:
        self._engine, self._content, self._threads = engine, content, threads
        self._input, self._outputs = model.inputs[0].name, [info.name for info in model.outputs]
        self._array: np.ndarray | None = None
        self._run: RunModel | None = None

    def __call__(self, array: np.ndarray) -> dict[str, np.ndarray]:
        if self._run is None or self._array is None:
            self._array = np.array(array)
            named = {self._input: self._array}
            self._run = self._engine.open_model(self._content, named, self._threads)
        np.copyto(self._array, array)  # the engine reads its inputs at every run
        return dict(zip(self._outputs, self._run(), strict=True))
