"""Finds the files of a Paddle model: a program, and parameters in one or several files."""

from __future__ import annotations

import os
from dataclasses import dataclass

from fourfold.errors import InputError, ModelError
from fourfold.formats.source import ModelSource, check_inside

PROGRAM, JSON, PARAMETERS = ".pdmodel", ".json", ".pdiparams"
OLD_PROGRAM = "__model__"
OLD_PARAMETERS = ("__params__", "params", "weights")
_HEADER_BYTES = 512  # bytes in which a JSON program identifies itself


@dataclass(frozen=True)
class ProgramFiles:
    """The paths of a program and its parameters.

    `parameters` is None if each parameter has its own file in `folder`.
    """

    program: str
    parameters: str | None
    folder: str

    @property
    def paths(self) -> tuple[str, ...]:
        """Return all files of a model."""
        if self.parameters is not None:
            return self.program, self.parameters
        if os.path.basename(self.program) != OLD_PROGRAM:
            return (self.program,)
        names = sorted(os.listdir(self.folder or os.curdir))
        paths = (os.path.join(self.folder, name) for name in names)
        return tuple(path for path in paths if os.path.isfile(path))


def is_json(source: ModelSource) -> bool:
    """Return True for a JSON program of Paddle 3."""
    start = bytes(source.content[:_HEADER_BYTES])
    return start.lstrip().startswith(b"{") and b'"base_code"' in start and b'"pir"' in start


def is_program(source: ModelSource) -> bool:
    assert source.path is not None
    named = os.path.basename(source.path) == OLD_PROGRAM
    return named or source.has_extension((PROGRAM,)) or is_json(source)


def program_in(folder: str) -> str | None:
    """Return the program of a folder that holds one model; None if there is none."""
    names = sorted(os.listdir(folder))
    if OLD_PROGRAM in names:
        return os.path.join(folder, OLD_PROGRAM)
    for extension in (PROGRAM, JSON):
        programs = [name for name in names if name.endswith(extension)]
        if extension == JSON:  # other files are JSON, too
            programs = [
                name for name in programs if os.path.splitext(name)[0] + PARAMETERS in names
            ]
        if len(programs) > 1:
            what, why = f"'{folder}' holds more than one model", f"it has {', '.join(programs)}"
            raise ModelError(what, why, f"pass the {extension} file of the model to open")
        if programs:
            return os.path.join(folder, programs[0])
    return None


def find_files(source: ModelSource) -> ProgramFiles:
    """Return the files of a model, from the path of one of them or of their folder."""
    path = source.path
    assert path is not None, "Paddle models are recognized by their paths"
    if source.others:
        return _passed_files((path, *source.others))
    program: str | None = path
    if source.is_folder:
        program = program_in(path)
    elif source.has_extension((PARAMETERS,)):
        stem = os.path.splitext(path)[0]
        programs = (stem + extension for extension in (PROGRAM, JSON))
        program = next(
            (check_inside(name, path) for name in programs if os.path.isfile(name)), None
        )
    if program is None:
        what, why = f"{source.title} has no program", f"there is no {PROGRAM} next to it"
        raise ModelError(what, why, f"put the {PROGRAM} or {JSON} file next to it")
    return ProgramFiles(program, _parameters_of(program), os.path.dirname(program))


def _passed_files(paths: tuple[str, ...]) -> ProgramFiles:
    """Return both files, which the caller may pass in any order."""
    parameters = [path for path in paths if path.lower().endswith((PARAMETERS, *OLD_PARAMETERS))]
    if len(paths) != 2 or len(parameters) != 1:
        what = f"{', '.join(map(repr, paths))} are not a Paddle model"
        raise InputError(what, f"a model is a program and its {PARAMETERS}", "pass these two files")
    (program,) = (path for path in paths if path not in parameters)
    return ProgramFiles(program, parameters[0], os.path.dirname(program))


def _parameters_of(program: str) -> str | None:
    folder, name = os.path.split(program)
    names = [os.path.splitext(name)[0] + PARAMETERS]
    names = [*OLD_PARAMETERS] if name == OLD_PROGRAM else names
    paths = (os.path.join(folder, one) for one in names)
    return next((check_inside(path, program) for path in paths if os.path.isfile(path)), None)
