"""Calibration samples from arrays, files or folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np

from fourfold.errors import InputError, nearest
from fourfold.formats import Model
from fourfold.processing.pictures import EXTENSIONS, read_picture
from fourfold.processing.pixels import AUTO, Pixels, PixelsOfPicture
from fourfold.processing.pixels.stated import StatedPixels
from fourfold.types import TensorType
from fourfold.vision.describe import describe_model
from fourfold.vision.meaning import DescribedModel
from fourfold.vision.preprocessing import PictureInput, find_picture_input

Sample = Mapping[str, np.ndarray] | Sequence[np.ndarray] | np.ndarray
SamplesOption = str | os.PathLike[str] | np.ndarray | Iterable[Sample]
MIN_SAMPLES = 4
SamplePixels = PixelsOfPicture | StatedPixels
_ARRAYS = (".npy", ".npz")


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples that are loaded when needed: arrays by argument name of the graph.

    `picture` says how pictures among them are converted; None if there are none.
    """

    sources: Sequence[Callable[[], Sample]]
    ports: Mapping[str, tuple[str, TensorType]]  # by input name of the model
    picture: PictureInput | None = None

    def __len__(self) -> int:
        return len(self.sources)

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        for number, source in enumerate(self.sources):
            yield self._arrays(number, source())

    def first(self, count: int) -> Samples:
        """Return at most `count` samples, evenly spread."""
        indices = np.linspace(0, len(self.sources) - 1, min(count, len(self.sources)))
        return Samples([self.sources[int(index)] for index in indices], self.ports, self.picture)

    def _arrays(self, number: int, sample: Sample) -> dict[str, np.ndarray]:
        named = self._by_name(number, sample)
        arrays = {}
        for name, (value, type_) in self.ports.items():
            if name not in named:
                why = f"it has {', '.join(named) or 'nothing'}"
                raise InputError(
                    f"sample {number} has no input '{name}'", why, nearest(name, list(named))
                )
            arrays[value] = _checked(f"input '{name}' of sample {number}", named[name], type_)
        return arrays

    def _by_name(self, number: int, sample: Sample) -> Mapping[str, np.ndarray]:
        if isinstance(sample, Mapping):
            return sample
        arrays = sample if isinstance(sample, list | tuple) else [cast(np.ndarray, sample)]
        if len(arrays) != len(self.ports):
            what = f"sample {number} has {len(arrays)} arrays"
            why = f"the model has {len(self.ports)} inputs: {', '.join(self.ports)}"
            raise InputError(what, why, "pass a dict of arrays by input name")
        return dict(zip(self.ports, arrays, strict=True))


def read_samples(
    samples: SamplesOption | None,
    model: Model,
    pixels: SamplePixels | None,
    least: int = MIN_SAMPLES,
    described: DescribedModel | None = None,
) -> Samples:
    """Return the samples that a caller passed. Raises InputError if there are fewer than
    `least`.

    Pictures are converted as for any other run of the model, which `described` identifies if it
    was simplified since it was read.
    """
    names = zip(model.input_names, model.main.arguments, strict=True)
    ports = {name: (value, model.main.types[value]) for name, value in names}
    if samples is None:
        what, why = "no samples were passed", "calibration needs samples to find ranges"
        raise InputError(what, why, "pass samples=: a folder of pictures or arrays, or an iterable")
    if isinstance(samples, str | os.PathLike):
        picture = _find_picture(pixels, described or describe_model(model))
        sources = _from_path(Path(samples), ports, picture)
        if not any(one.func is _read_file and _is_picture(one.args[0]) for one in sources):
            picture = None
    else:
        picture = None
        sources = [partial(_same, sample) for sample in samples]
    if len(sources) < least:
        what, why = f"there are {len(sources)} samples", "these are too few to be representative"
        raise InputError(what, why, f"pass at least {least}, better 100")
    return Samples(sources, ports, picture)


def _find_picture(pixels: SamplePixels | None, model: DescribedModel) -> PictureInput | None:
    """Return how pictures are converted: as the caller states, or as the model takes them."""
    if len(model.inputs) != 1:
        return None
    option = Pixels.from_metadata(model) if pixels == AUTO else pixels
    assert not isinstance(option, str)
    return find_picture_input(model, StatedPixels.of(option), model.inputs[0].name)


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in EXTENSIONS


def _same(sample: Sample) -> Sample:
    return sample


def _from_path(
    path: Path, ports: Mapping[str, tuple[str, TensorType]], picture: PictureInput | None
) -> list[partial[Sample]]:
    if path.is_dir():
        extensions = (*EXTENSIONS, *_ARRAYS)
        files = sorted(one for one in path.iterdir() if one.suffix.lower() in extensions)
        return [partial(_read_file, one, ports, picture) for one in files]
    stacked = _load(path)
    if isinstance(stacked, np.ndarray):
        return [partial(_same, row) for row in stacked]
    counts = {name: len(rows) if rows.ndim else 0 for name, rows in stacked.items()}
    if len(set(counts.values())) != 1:
        why = ", ".join(f"{name} has {count}" for name, count in counts.items()) or "it is empty"
        fix = "stack the same number of samples of each input"
        raise InputError(f"inputs in {path} have different numbers of samples", why, fix)
    rows = range(next(iter(counts.values())))
    return [partial(_row, stacked, at) for at in rows]


def _row(stacked: Mapping[str, np.ndarray], at: int) -> Sample:
    return {name: rows[at] for name, rows in stacked.items()}


def _load(path: Path) -> np.ndarray | dict[str, np.ndarray]:
    try:
        content = np.load(path, allow_pickle=False)
        return content if isinstance(content, np.ndarray) else dict(content)
    except (ValueError, OSError, EOFError) as error:
        what, why = f"the samples in {path} cannot be read", str(error)
        fix = "pass a folder, or a file that numpy.save or numpy.savez wrote"
        raise InputError(what, why, fix) from error


def _read_file(
    path: Path, ports: Mapping[str, tuple[str, TensorType]], picture: PictureInput | None
) -> Sample:
    """Read one sample of a folder: the arrays of all inputs, or a picture for the only one."""
    if path.suffix.lower() in _ARRAYS:
        return _load(path)
    if len(ports) != 1:
        why = f"the model has {len(ports)} inputs: {', '.join(ports)}"
        fix = "save each sample with numpy.savez, with its arrays by input name"
        raise InputError(f"the picture {path.name} cannot be a sample", why, fix)
    if picture is None:
        (name, (_, type_)), *_ = ports.items()
        why = f"input '{name}' has the shape {list(type_.shape)}"
        fix = "save the samples as arrays with numpy.save"
        raise InputError(f"the picture {path.name} cannot be a sample", why, fix)
    return picture.array(read_picture(path, picture.channels))


def _checked(title: str, sample: np.ndarray, type_: TensorType) -> np.ndarray:
    array = np.asarray(sample)
    dtype = type_.dtype.numpy
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        why, fix = f"it is {array.dtype}, and the model takes {dtype}", f"pass {dtype}"
        raise InputError(f"{title} has the wrong type", why, fix)
    if array.shape != type_.shape and (1, *array.shape) != type_.shape:
        why = f"it is {list(array.shape)}, and the model takes {list(type_.shape)}"
        raise InputError(
            f"{title} has the wrong shape", why, "pass samples of the model's own shape"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        why = "ranges cannot be derived from them"
        raise InputError(f"{title} has NaN or infinite numbers", why, "leave this sample out")
    return np.ascontiguousarray(array, dtype).reshape(type_.shape)
