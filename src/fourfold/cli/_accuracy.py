"""The accuracy of a model on a dataset, for `fourfold verify --dataset`."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from fourfold.cli._images import PictureOptions, advice
from fourfold.cli._options import Command, ModelArguments
from fourfold.cli._show import echo, show_json, show_line, show_table
from fourfold.errors import InputError
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold.tools.accuracy import evaluate as evaluation
    from fourfold.tools.report import verify as verifiers
    from fourfold.vision import labels as names_of_classes
else:
    evaluation = lazy_import("fourfold.tools.accuracy.evaluate")
    names_of_classes = lazy_import("fourfold.vision.labels")
    verifiers = lazy_import("fourfold.tools.report.verify")

INTERRUPTED = 130  # exit status after Ctrl-C, as shells have it
_PATH = click.Path(exists=True, path_type=Path)
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class DatasetArguments(NamedTuple):
    """A dataset on the command line, and how accuracy is measured on it."""

    dataset: Path | None = None
    images: Path | None = None
    labels: Path | None = None
    float_model: str | None = None
    limit: int | None = None
    score: float | None = None

    def check(self, compares_arrays: bool) -> bool:
        """Return whether a dataset was passed. Raises InputError for options that need one, or that
        do not go with one.
        """
        if self.dataset is not None and compares_arrays:
            what, why = "--dataset is not alone", "--inputs and --layers compare outputs"
            raise InputError(what, why, "leave --inputs and --layers out, or --dataset")
        named = [f"--{name.replace('_', '-')}" for name, one in self._asdict().items() if one]
        if self.dataset is None and named:
            what, why = f"{named[0]} has no dataset", "it is an option of --dataset"
            raise InputError(what, why, "add --dataset FOLDER")
        return self.dataset is not None


def dataset_options(command: Command) -> Command:
    """Add --dataset and its options, passed to the command as one `measured`."""

    @click.option(
        "--dataset",
        type=_PATH,
        help="Measure accuracy on these pictures: a folder with one folder per class, named by its "
        "label or number, or a COCO annotation file.",
    )
    @click.option(
        "--images",
        type=_FOLDER,
        help="Folder with the pictures of a COCO annotation file.  [default: searched near it]",
    )
    @click.option(
        "--labels",
        type=_FILE,
        metavar="FILE",
        help="File with names of classes, one a line.  [default: from the model's metadata]",
    )
    @click.option(
        "--float-model",
        type=click.Path(exists=True),
        metavar="MODEL",
        help="Float model that a quantized model was made from, to compare its accuracy.",
    )
    @click.option(
        "--limit",
        type=click.IntRange(1),
        metavar="N",
        help="Measure on N pictures of the dataset, chosen at random with --seed.  [default: all]",
    )
    @click.option(
        "--score", type=float, help="Smallest score of boxes that mAP counts.  [default: 0.001]"
    )
    @functools.wraps(command)
    def wrapped(**others: Any) -> None:
        values = {name: others.pop(name) for name in DatasetArguments._fields}
        command(measured=DatasetArguments(**values), **others)

    return wrapped


def show_accuracy(
    arguments: ModelArguments,
    measured: DatasetArguments,
    pictures: PictureOptions,
    seed: int,
    as_json: bool,
) -> None:
    """Measure and print the accuracy, and exit with the status of the verdict."""
    assert measured.dataset is not None
    labels = () if measured.labels is None else names_of_classes.read_labels(measured.labels)
    values = {**measured._asdict(), "labels": labels, "stated": pictures.stated, "seed": seed}
    with verifiers.Verifier(arguments.model, arguments.options) as verifier:
        found = verifier.measure(evaluation.DatasetOptions(**values), progress=not as_json)
    if as_json:
        show_json(found.to_json())
    else:
        used = found.preprocessing
        echo(f"pictures: {used['text']}{advice(used['source'])}", err=True)
        echo(f"{found.title}\n{found.precision} on {found.device}\n")
        show_table("", *found.table())
        for line in found.lines():
            show_line(line)
    if found.stopped:
        echo(f"interrupted after {found.pictures} of {found.total} pictures", err=True)
        click.get_current_context().exit(INTERRUPTED)
    click.get_current_context().exit(0 if found.agrees else 1)
