"""The files of a Paddle model: a program, and its parameters in one file or in one for each."""

from __future__ import annotations

import os
from dataclasses import dataclass

from fourfold.errors import InputError, ModelError
from fourfold.formats.source import ModelSource

PROGRAM, JSON, PARAMETERS = ".pdmodel", ".json", ".pdiparams"
OLD_PROGRAM = "__model__"
OLD_PARAMETERS = ("__params__", "params", "weights")
_START = 512  # bytes within which a JSON program says what it is


@dataclass(frozen=True)
class ProgramFiles:
    """The paths of a program and of its parameters. `folder` is where parameters have a file each,
    if they are not in one.
    """

    program: str
    parameters: str | None
    folder: str

    @property
    def paths(self) -> tuple[str, ...]:
        """All that a model is made of; the files of a folder where parameters have one each."""
        if self.parameters is not None:
            return self.program, self.parameters
        if os.path.basename(self.program) != OLD_PROGRAM:
            return (self.program,)
        names = sorted(os.listdir(self.folder or os.curdir))
        paths = (os.path.join(self.folder, name) for name in names)
        return tuple(path for path in paths if os.path.isfile(path))


def is_json(source: ModelSource) -> bool:
    """Whether this is a program of Paddle 3 as JSON."""
    start = bytes(source.content[:_START])
    return start.lstrip().startswith(b"{") and b'"base_code"' in start and b'"pir"' in start


def is_program(source: ModelSource) -> bool:
    assert source.path is not None
    named = os.path.basename(source.path) == OLD_PROGRAM
    return named or source.has_extension((PROGRAM,)) or is_json(source)


def program_in(folder: str) -> str | None:
    """The program of a folder that holds one model."""
    names = sorted(os.listdir(folder))
    if OLD_PROGRAM in names:
        return os.path.join(folder, OLD_PROGRAM)
    for extension in (PROGRAM, JSON):
        found = [name for name in names if name.endswith(extension)]
        if extension == JSON:  # other things are JSON, too
            found = [name for name in found if os.path.splitext(name)[0] + PARAMETERS in names]
        if len(found) > 1:
            what, why = f"'{folder}' holds more than one model", f"it has {', '.join(found)}"
            raise ModelError(what, why, f"pass the {extension} file of the one that is meant")
        if found:
            return os.path.join(folder, found[0])
    return None


def find_files(source: ModelSource) -> ProgramFiles:
    """The files of a model by the path of one of them, or of their folder."""
    path = source.path
    assert path is not None, "models of several files are told by their paths"
    if source.others:
        return _given((path, *source.others))
    program: str | None = path
    if source.is_folder:
        program = program_in(path)
    elif source.has_extension((PARAMETERS,)):
        stem = os.path.splitext(path)[0]
        programs = (stem + extension for extension in (PROGRAM, JSON))
        program = next((name for name in programs if os.path.isfile(name)), None)
    if program is None:
        what, why = f"{source.title} comes without its program", f"no {PROGRAM} is beside it"
        raise ModelError(what, why, f"put the {PROGRAM} or {JSON} file beside it")
    return ProgramFiles(program, _parameters_of(program), os.path.dirname(program))


def _given(paths: tuple[str, ...]) -> ProgramFiles:
    """Both files, in any order; only parameters are called so."""
    held = [path for path in paths if path.lower().endswith((PARAMETERS, *OLD_PARAMETERS))]
    if len(paths) != 2 or len(held) != 1:
        what = f"{', '.join(map(repr, paths))} are no model"
        raise InputError(what, f"it is a program and its {PARAMETERS}", "pass these two")
    (program,) = (path for path in paths if path not in held)
    return ProgramFiles(program, held[0], os.path.dirname(program))


def _parameters_of(program: str) -> str | None:
    folder, name = os.path.split(program)
    names = [os.path.splitext(name)[0] + PARAMETERS]
    names = [*OLD_PARAMETERS] if name == OLD_PROGRAM else names
    paths = (os.path.join(folder, one) for one in names)
    return next((path for path in paths if os.path.isfile(path)), None)
