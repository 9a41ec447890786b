"""Arrays for the inputs of a session, read from files or random."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fourfold.cli._images import Scaling, own_scaling, read_frame, read_image
from fourfold.cli._show import echo
from fourfold.errors import InputError, nearest
from fourfold.processing.pictures import EXTENSIONS, MODES, read_picture
from fourfold.processing.pixels import Pixels
from fourfold.processing.pixels.frame_fit import FrameFit, Size, fit_frame
from fourfold.runtime.random_inputs import InputPort, random_inputs
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold.vision import photographs
    from fourfold.vision.photographs import PictureInput
else:
    photographs = lazy_import("fourfold.vision.photographs")  # few inputs are photographs


class GatheredInputs(NamedTuple):
    """An array for every input. If one is a photograph: its file, its height and width, and its
    position in the model's input, as far as they are known.
    """

    arrays: dict[str, np.ndarray]
    photograph: Path | None = None
    frame: Size | None = None
    fit: FrameFit | None = None


class Photograph(NamedTuple):
    """A photograph as an array, its own size, and its position in the model's input."""

    array: np.ndarray
    frame: Size | None = None
    fit: FrameFit | None = None


def gather_inputs(
    ports: Sequence[InputPort],
    files: Iterable[str],
    scaling: Scaling,
    seed: int,
    picture: PictureInput | None = None,
) -> GatheredInputs:
    """Read inputs from files; those without a file get seeded random numbers. `picture` says how a
    photograph is scaled.
    """
    gathered = GatheredInputs(random_inputs(ports, seed))
    by_name = {port.name: port for port in ports}
    for name, path in (split_file(text, list(by_name)) for text in files):
        if path.suffix.lower() in EXTENSIONS and not _is_text(by_name[name]):
            _require_file(path, name)
            array, frame, fit = _read_photograph(path, by_name[name], scaling, picture)
            gathered = GatheredInputs(gathered.arrays, path, frame, fit)
        else:
            array = read_input(path, by_name[name], scaling)
        gathered.arrays[name] = array
    return gathered


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


def read_input(path: Path, port: InputPort, scaling: Scaling) -> np.ndarray:
    """Read an array, a picture or a text for one input."""
    _require_file(path, port.name)
    if path.suffix.lower() != ".npy":
        if _is_text(port):
            return _read_text(path)
        return _read_photograph(path, port, scaling, None).array
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


def _read_photograph(
    path: Path, port: InputPort, scaling: Scaling, picture: PictureInput | None
) -> Photograph:
    """Read a photograph, scaled as the caller, the metadata or the model's family say."""
    words = getattr(port, "pixels", "")
    if words:
        return _read_frame(path, port, Pixels.parse(words))
    if picture is not None and picture.name == port.name and not scaling.stated:
        frame = read_picture(path, picture.channels)
        if picture.is_real or picture.pixels.fit == "letterbox":
            echo(f"{path.name}: {picture}{_advice(picture.told_by)}", err=True)
        return Photograph(picture.array(frame), frame.shape[:2], picture.fit(frame))
    if not scaling.stated and np.dtype(port.dtype).kind == "f":
        own = own_scaling(getattr(port, "metadata", None))
        told_by = photographs.GUESSED if own is None else photographs.FROM_METADATA
        scaling = own or scaling
        echo(f"{path.name}: {scaling}, {told_by}{_advice(told_by)}", err=True)
    array = read_image(path, port, scaling)
    return Photograph(array, *_stretched(path, tuple(port.shape)))


def _advice(told_by: str) -> str:
    return "; change it with --range LOW,HIGH" if told_by == photographs.GUESSED else ""


def _stretched(path: Path, shape: tuple[int, ...]) -> tuple[Size, FrameFit]:
    """Return the size of a picture, and its position when stretched over the whole input."""
    height, width, _ = read_picture(path, 3).shape
    frame = (height, width)
    target = shape[-3:-1] if shape[-1] in MODES else shape[-2:]
    return frame, fit_frame(frame, (target[0], target[1]), "stretch")


def _read_frame(path: Path, port: InputPort, pixels: Pixels) -> Photograph:
    """Read a photograph for a session that takes bytes; the device fits it into the input."""
    shape = tuple(port.shape)
    array = read_frame(path, port.name, shape, pixels)
    if pixels.is_plain:
        return Photograph(array, *_stretched(path, shape))
    size = pixels.size_of(array.shape)
    if pixels.is_yuv or pixels.size is not None or pixels.into is None or size is None:
        return Photograph(array)
    return Photograph(array, size, pixels.fit_frame(size, pixels.into))


def _read_text(path: Path) -> np.ndarray:
    """Read a file with one text a line."""
    try:
        return np.array(path.read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        fix = "pass a text file, or an array of str in a .npy file"
        raise InputError(f"the file {path} cannot be read as text", str(error), fix) from error
