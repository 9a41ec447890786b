"""Arrays for a session's inputs: from files by name, random where none is given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fourfold.cli._images import Scaling, read_image
from fourfold.errors import InputError, nearest
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
        order = getattr(port, "pixels", "").partition(",")[0]
        return read_image(path, port.name, tuple(port.shape), port.dtype, scaling, order)
    try:
        array: np.ndarray = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(
            f"the file {path} for input '{port.name}' is no array",
            str(error),
            "write it with numpy.save",
        ) from error
    return array


def summarise(arrays: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """What the outputs look like, as plain data."""
    return [_summary(name, array) for name, array in arrays.items()]


def _summary(name: str, array: np.ndarray) -> dict[str, Any]:
    numbers = array.astype(np.float64) if array.dtype.kind in "fiub" and array.size else None
    row: dict[str, Any] = {"name": name, "shape": list(array.shape), "dtype": str(array.dtype)}
    for key in ("min", "max", "mean"):
        row[key] = None if numbers is None else float(getattr(numbers, key)())
    if numbers is not None and array.ndim in (1, 2) and array.shape[-1] == array.size >= 10:
        scores = numbers.ravel()
        best = np.argsort(-scores, kind="stable")[:5]
        row["top"] = [{"class": int(place), "score": float(scores[place])} for place in best]
    return row
