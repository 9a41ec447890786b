"""Paddle models: a program (.pdmodel, or .json of Paddle 3) and its parameters (.pdiparams)."""

from __future__ import annotations

from fourfold.formats.format import Format
from fourfold.formats.paddle.files import (
    JSON,
    PARAMETERS,
    PROGRAM,
    find_files,
    is_program,
    program_in,
)
from fourfold.formats.source import ModelSource


def matches(source: ModelSource) -> bool:
    """Match by path; a JSON program is recognized by its first bytes."""
    if source.path is None:
        return False
    if source.is_folder:
        return program_in(source.path) is not None
    return source.has_extension((PARAMETERS,)) or is_program(source)


def files(source: ModelSource) -> tuple[str, ...]:
    """Return the paths of program and parameters; all files of the folder if they are separate."""
    return find_files(source).paths


FORMAT = Format(
    "Paddle",
    (PROGRAM, JSON, PARAMETERS),
    matches,
    f"{__name__}.reader",
    cpu_engine="paddle",
    files=files,
)
