"""Arrays for a session's inputs: from files by name, random where none is given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import click
import numpy as np

from fourfold.cli._images import Scaling, own_scaling, read_frame, read_image
from fourfold.cli._show import number_text
from fourfold.errors import InputError, nearest
from fourfold.pixels import Pixels
from fourfold.runtime.random_inputs import InputPort, random_inputs


def gather_inputs(
    ports: Sequence[InputPort], files: Iterable[str], scaling: Scaling, seed: int
) -> dict[str, np.ndarray]:
    """One array for every input: what the files hold, else seeded random numbers."""
    arrays = random_inputs(ports, seed)
    known = {port.name: port for port in ports}
    for name, path in (split_file(text, list(known)) for text in files):
        arrays[name] = read_input(path, known[name], scaling)
    return arrays


def split_file(text: str, names: Sequence[str]) -> tuple[str, Path]:
    """'NAME=FILE', or 'FILE' alone where there is one input."""
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
    if not path.is_file():
        raise InputError(
            f"the file {path} for input '{port.name}' is not there",
            "no such file, or it is a folder",
            "check the path",
        )
    if path.suffix.lower() != ".npy":
        return (
            _read_text(path)
            if np.dtype(port.dtype).kind == "O"
            else _read_picture(path, port, scaling)
        )
    try:
        array: np.ndarray = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(
            f"the file {path} for input '{port.name}' is no array",
            str(error),
            "write it with numpy.save",
        ) from error
    return array


def _read_picture(path: Path, port: InputPort, scaling: Scaling) -> np.ndarray:
    """A picture, scaled as the caller says, or else as the model does."""
    words = getattr(port, "pixels", "")
    if words:
        return read_frame(path, port.name, tuple(port.shape), Pixels.parse(words))
    own = own_scaling(getattr(port, "metadata", None))
    if own is not None and not scaling.stated and np.dtype(port.dtype).kind == "f":
        scaling = own
        mean, std = (" ".join(map(number_text, one)) for one in (own.mean, own.std))
        click.echo(f"{path.name}: mean {mean}, std {std}, as the model's metadata say", err=True)
    return read_image(path, port.name, tuple(port.shape), port.dtype, scaling)


def _read_text(path: Path) -> np.ndarray:
    """A text a line."""
    try:
        return np.array(path.read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        fix = "pass a text file, or an array of str in a .npy file"
        raise InputError(f"the file {path} cannot be read as text", str(error), fix) from error
