"""Arrays for the inputs of a session, read from files or random."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fourfold.cli._images import PictureOptions, advice, read_frame
from fourfold.cli._show import echo
from fourfold.errors import InputError, nearest
from fourfold.processing.pictures import EXTENSIONS, read_picture
from fourfold.processing.pixels import Pixels
from fourfold.processing.pixels.frame_fit import FrameFit, Size
from fourfold.processing.sound_files import EXTENSION
from fourfold.runtime.random_inputs import InputPort, random_inputs
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold.cli import _sounds as sounds
    from fourfold.runtime.tensor_info import TensorInfo
    from fourfold.vision import photographs, preprocessing
    from fourfold.vision.meaning import Described
else:  # few inputs are photographs or sounds
    sounds = lazy_import("fourfold.cli._sounds")
    photographs = lazy_import("fourfold.vision.photographs")
    preprocessing = lazy_import("fourfold.vision.preprocessing")


class GatheredInputs(NamedTuple):
    """An array for every input. If one is a photograph: its file, its height and width, its
    position in the model's input, and how it was converted, as far as they are known.
    """

    arrays: dict[str, np.ndarray]
    photograph: Path | None = None
    frame: Size | None = None
    fit: FrameFit | None = None
    preprocessing: dict[str, Any] | None = None


class Photograph(NamedTuple):
    """A photograph as an array, its own size, its position in the model's input, and how it was
    converted.
    """

    array: np.ndarray
    frame: Size | None = None
    fit: FrameFit | None = None
    preprocessing: dict[str, Any] | None = None
    text: str = ""  # the preprocessing in words, to print


def gather_inputs(
    model: Described,
    files: Iterable[str],
    pictures: PictureOptions,
    seed: int,
    path: Path | None = None,
    *,
    rate: int | None = None,
    printed: set[str] | None = None,
) -> GatheredInputs:
    """Read inputs from files; those without a file get seeded random numbers.

    The preprocessing of a photograph is printed.

    Args:
        model: The model.
        files: Files of named inputs, as 'NAME=FILE', or as 'FILE' if there is one input.
        pictures: Options about pictures.
        seed: Seed of the random numbers.
        path: File for the input that `files` leaves, if any.
        rate: Sample rate of the model in Hz, for sounds; by default the model says it.
        printed: Lines that were printed before, and are not repeated. New ones are added.
    """
    gathered = GatheredInputs(random_inputs(model.inputs, seed))
    ports = {port.name: port for port in model.inputs}
    for name, file in name_files(list(ports), files, path).items():
        if file.suffix.lower() in EXTENSIONS and not _is_text(ports[name]):
            taken = read_photograph(file, name, model, pictures)
            _print_once(file, taken.text, printed)
            array, frame, fit, converted, _ = taken
            gathered = GatheredInputs(gathered.arrays, file, frame, fit, converted)
        elif file.suffix.lower() == EXTENSION:
            array, heard = read_waveform(file, name, model, rate)
            _print_once(file, heard["text"], printed)
            gathered = gathered._replace(preprocessing=heard)
        else:
            array = read_input(file, ports[name], model, pictures)
        gathered.arrays[name] = array
    return gathered


def _print_once(path: Path, text: str, printed: set[str] | None) -> None:
    if text and text not in (printed or ()):
        echo(f"{path.name}: {text}", err=True)
    if printed is not None:
        printed.add(text)


def name_files(names: Sequence[str], files: Iterable[str], path: Path | None) -> dict[str, Path]:
    """Return the file of each input that has one: those of --input, and `path` for the input that
    these leave.
    """
    named = dict(split_file(text, names) for text in files)
    if path is None:
        return named
    free = [name for name in names if name not in named]
    if len(free) == 1:
        return {**named, free[0]: path}
    what, fix = f"no input is left for {path}", "leave either --input or the file out"
    why = f"--input names files for all inputs: {', '.join(names)}" if names else "there are none"
    if free:
        what = f"{path} does not say which input it is for"
        why = f"the model has {len(free)} inputs without a file: {', '.join(free)}"
        fix = f"write it as --input {free[0]}={path}"
    raise InputError(what, why, fix)


def split_file(text: str, names: Sequence[str]) -> tuple[str, Path]:
    """Return the name and the path in 'NAME=FILE', or in 'FILE' if there is one input."""
    name, equals, path = text.partition("=")
    if not equals and len(names) == 1:
        name, path = names[0], text
    elif not equals:
        raise InputError(
            f"--input {text!r} does not say which input it is for",
            f"the model has {len(names)} inputs: {', '.join(names)}",
            "write it as --input NAME=FILE",
        )
    if name not in names:
        raise InputError(
            f"the model has no input '{name}'",
            f"its inputs are: {', '.join(names) or 'none'}",
            nearest(name, names),
        )
    return name, Path(path)


def read_input(
    path: Path, port: InputPort, model: Described, pictures: PictureOptions
) -> np.ndarray:
    """Read an array, a picture, a sound or a text for one input."""
    _require_file(path, port.name)
    if path.suffix.lower() != ".npy":
        if _is_text(port):
            return _read_text(path)
        if path.suffix.lower() == EXTENSION:
            return read_waveform(path, port.name, model)[0]
        return read_photograph(path, port.name, model, pictures).array
    try:
        array: np.ndarray = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(
            f"the file {path} for input '{port.name}' is not an array",
            str(error),
            "write it with numpy.save",
        ) from error
    return array


def _require_file(path: Path, name: str) -> None:
    if not path.is_file():
        raise InputError(
            f"the file {path} for input '{name}' is missing",
            "there is no such file, or it is a folder",
            "check the path",
        )


def _is_text(port: InputPort) -> bool:
    return bool(np.dtype(port.dtype).kind == "O")


def read_photograph(
    path: Path, name: str, model: Described, pictures: PictureOptions
) -> Photograph:
    """Read a photograph, converted as the caller states, or as the model takes photographs."""
    _require_file(path, name)
    port = next(port for port in model.inputs if port.name == name)
    if port.pixels:
        return _read_frame(path, port, model, pictures)
    picture = preprocessing.find_picture_input(model, pictures.stated, name)
    if picture is None:
        raise InputError(
            f"the picture {path.name} cannot become input '{name}' of shape {list(port.shape)}",
            "a picture fits an input of [batch, height, width, channels] with 1, 3 or 4 channels",
            "save the input as an array in a .npy file and pass that",
        )
    frame = read_picture(path, picture.channels)
    size = (frame.shape[0], frame.shape[1])
    text = f"{picture}{advice(picture.told_by)}"
    return Photograph(picture.array(frame), size, picture.fit(frame), picture.to_json(), text)


def read_waveform(
    path: Path, name: str, model: Described, rate: int | None = None
) -> tuple[np.ndarray, dict[str, Any]]:
    """Read a sound for an input of samples, and return how it was converted."""
    _require_file(path, name)
    return sounds.waveform(path, next(port for port in model.inputs if port.name == name), rate)


def _read_frame(
    path: Path, port: TensorInfo, model: Described, pictures: PictureOptions
) -> Photograph:
    """Read a photograph for a session that takes bytes. The device scales it, and fits it into the
    input if frames of any size may come.
    """
    pixels, shape = Pixels.parse(port.pixels), tuple(port.shape)
    if pixels.is_yuv or len(model.inputs) > 1:
        return Photograph(read_frame(path, port.name, shape, pixels))
    if pixels.fit is not None and (pixels.size is not None or pixels.into is None):
        return Photograph(read_frame(path, port.name, shape, pixels))
    taken = photographs.find_frame_input(model)
    assert taken is not None, "the only input has pixels"
    frame = read_picture(path, taken.channels)
    size = (frame.shape[0], frame.shape[1])
    # The scaling was printed when the option was decided.
    text = "" if pictures.is_scaled_on_device else str(taken)
    return Photograph(taken.array(frame), size, taken.fit(frame), taken.to_json(), text)


def _read_text(path: Path) -> np.ndarray:
    """Read a file with one text a line."""
    try:
        return np.array(path.read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        fix = "pass a text file, or an array of str in a .npy file"
        raise InputError(f"the file {path} cannot be read as text", str(error), fix) from error
