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
    """By the path, and where that says nothing, by how a program as JSON begins."""
    if source.path is None:
        return False
    if source.is_folder:
        return program_in(source.path) is not None
    return source.has_extension((PARAMETERS,)) or is_program(source)


def files(source: ModelSource) -> tuple[str, ...]:
    """The program and the parameters; where these have a file each, all files of the folder."""
    return find_files(source).paths


FORMAT = Format(
    "Paddle",
    (PROGRAM, JSON, PARAMETERS),
    matches,
    f"{__name__}.reader",
    cpu_engine="paddle",
    files=files,
)
