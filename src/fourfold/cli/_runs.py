"""Runs of a model on one input or on several, with their results as plain data."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fourfold.cli import describe_error, exit_code
from fourfold.cli._answers import AnswerOptions, draw_answer, why_not_drawn
from fourfold.cli._images import PictureOptions
from fourfold.cli._inputs import GatheredInputs, gather_inputs, name_files
from fourfold.cli._outputs import summarise
from fourfold.cli._show import echo
from fourfold.errors import FourfoldError, InputError
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold import Session
    from fourfold import vision as answers
    from fourfold.support.progress import Progress
    from fourfold.vision import Answer
    from fourfold.vision.meaning import Described
else:
    answers = lazy_import("fourfold.vision")


@dataclass
class Outcome:
    """The result of a run on one file as plain data, and its answer; for a file that failed, the
    error.
    """

    path: Path | None
    seconds: float = 0.0
    data: dict[str, Any] = field(default_factory=dict)
    answer: Answer | None = None
    error: FourfoldError | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as one of several results."""
        name = {"file": str(self.path)}
        if self.error is not None:
            return {**name, "error": describe_error(self.error)}
        return {**name, "seconds": self.seconds, **self.data}


class RunOptions(NamedTuple):
    """Options of runs: files of named inputs, how pictures go in, what is shown, and the folder to
    save outputs to.
    """

    files: tuple[str, ...]
    pictures: PictureOptions
    shown: AnswerOptions
    output: Path | None = None
    seed: int = 0
    rate: int | None = None


class Runs:
    """Runs an open session.

    Args:
        session: The session.
        model: The session as it was opened, whose outputs are decoded.
        taking: The model whose outputs say how photographs go in.
        options: Options of the runs.
    """

    def __init__(
        self, session: Session, model: Described, taking: Described, options: RunOptions
    ) -> None:
        self._session, self._model, self._taking, self._options = session, model, taking, options
        self._printed: set[str] = set()

    def run(self, path: Path | None, stem: str = "") -> Outcome:
        """Run on one file, which goes to the input that --input leaves.

        Args:
            path: The file; None for --input and random numbers only.
            stem: For one of several files, the name of what is saved for it.
        """
        options, shown = self._options, self._options.shown
        names = [info.name for info in self._taking.inputs]
        _announce_random(names, name_files(names, options.files, path), options.seed)
        inputs = gather_inputs(
            self._taking,
            options.files,
            options.pictures,
            options.seed,
            path,
            rate=options.rate,
            printed=self._printed,
        )
        began = time.perf_counter()
        results = self._session.run(inputs.arrays)
        seconds = time.perf_counter() - began
        answer = self._answer(results, inputs)
        outputs = summarise(results, self._session.outputs, answer.unknown, shown.top)
        saved = {} if options.output is None else save(options.output / stem, results)
        drawing = shown.drawing
        if drawing is not None and stem:
            drawing = drawing / f"{stem}.png"
        saved |= _draw(answer, inputs.photograph, drawing)
        data = {
            "preprocessing": inputs.preprocessing,
            "outputs": outputs,
            "answer": answer.to_json(),
            "files": {name: str(path) for name, path in saved.items()},
        }
        return Outcome(path, seconds, data, answer)

    def run_all(
        self, paths: Sequence[Path], outcomes: list[Outcome], progress: Progress | None
    ) -> None:
        """Run on each file, and add what came of it to `outcomes`. A file that fails is reported,
        and does not stop the others.
        """
        for place, (path, stem) in enumerate(zip(paths, _stems(paths), strict=True)):
            if progress is not None:
                progress(place, len(paths), path.name, 0.0)
            try:
                outcomes.append(self.run(path, stem))
            except FourfoldError as error:
                echo(f"error: {error.what}: {error.why}", err=True)
                outcomes.append(Outcome(path, error=error))

    def _answer(self, results: Mapping[str, np.ndarray], inputs: GatheredInputs) -> Answer:
        """Decode the results; without --labels if these turn out not to fit."""
        shown = self._options.shown
        options: dict[str, Any] = {"top": shown.top, "score": shown.score}
        options |= {"fit": inputs.fit, "frame": inputs.frame}
        try:
            return answers.read_answer(self._model, results, shown.labels, **options)
        except InputError as error:
            if not shown.labels:
                raise
            echo(f"the labels were not used: {error.what}, {error.why}", err=True)
            return answers.read_answer(self._model, results, **options)


def failure_code(outcomes: Sequence[Outcome]) -> int:
    """Return the exit code: that of the first failure, or 0."""
    errors = (one.error for one in outcomes)
    return next((exit_code(error) for error in errors if error is not None), 0)


def _announce_random(names: Sequence[str], named: Mapping[str, Path], seed: int) -> None:
    """Print which inputs get random values, if any."""
    free = [name for name in names if name not in named]
    if free:
        which = f" for {', '.join(free)}" if named else ""
        echo(f"no input given{which}: random values, seed {seed}", err=True)


def _stems(paths: Sequence[Path]) -> list[str]:
    """Return different names for what is saved for each file."""
    stems: list[str] = []
    for path in paths:
        numbered = (f"{path.stem}_{place}" for place in itertools.count(2))
        choices = itertools.chain((path.stem, path.name), numbered)
        stems.append(next(one for one in choices if one not in stems))
    return stems


def _draw(answer: Answer, photograph: Path | None, path: Path | None) -> dict[str, Path]:
    """Draw the results if that was asked for, and return the file. Results that turn out not to be
    drawable are still shown.
    """
    if path is None or photograph is None:
        return {}
    reason = why_not_drawn(answer.kinds)
    if reason:
        echo(f"nothing was drawn: {reason}", err=True)
        return {}
    draw_answer(answer, photograph, path)
    return {"the drawing": path}


def save(folder: Path, arrays: Mapping[str, np.ndarray]) -> dict[str, Path]:
    """Save each array to a file of its name, and return the paths. Files are written atomically."""
    saved: dict[str, Path] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, array in arrays.items():
            stem = re.sub(r"[^\w.-]+", "_", name).lstrip(".") or "output"
            stems = {path.stem for path in saved.values()}
            choices = (stem, *(f"{stem}_{place}" for place in range(2, len(arrays) + 2)))
            saved[name] = folder / f"{next(item for item in choices if item not in stems)}.npy"
            _write(saved[name], array)
    except OSError as error:
        raise InputError(
            f"the outputs cannot be written to {folder}",
            str(error),
            "choose a folder that can be written to, with enough free space",
        ) from error
    return saved


def _write(path: Path, array: np.ndarray) -> None:
    descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=".npy")
    try:
        with os.fdopen(descriptor, "wb") as file:
            plain = array.astype(bytes) if array.dtype == object else array
            np.save(file, plain, allow_pickle=False)
        Path(aside).chmod(0o644)
        Path(aside).replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            Path(aside).unlink()
