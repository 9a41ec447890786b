"""Reads a Paddle program and its parameters into a Model."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np

from fourfold.errors import FourfoldError, ModelError
from fourfold.formats.conversion import sound, unsupported
from fourfold.formats.inputs import open_sizes
from fourfold.formats.model import Model
from fourfold.formats.names import unique
from fourfold.formats.options import ReadOptions
from fourfold.formats.paddle.conversion import convert_program
from fourfold.formats.paddle.convert import rules
from fourfold.formats.paddle.files import ProgramFiles, find_files, is_json
from fourfold.formats.paddle.parameters import read_parameters
from fourfold.formats.paddle.pir import read_json
from fourfold.formats.paddle.program import read_program
from fourfold.formats.paddle.records import Program
from fourfold.formats.paddle.source_graph import PaddleSourceGraph
from fourfold.formats.rule_table import summary
from fourfold.formats.source import ModelSource, open_source


def read(source: ModelSource, options: ReadOptions) -> Model:
    options.refuse_signature("Paddle")
    files = find_files(source)
    with sound(source.title, "Paddle model", AttributeError, AssertionError):
        file = open_source(files.program)
        program = read_json(file.content) if is_json(file) else read_program(file.content)
        parameters = _parameters(program, files)
    size = len(file.content) + sum(array.nbytes for array in parameters.values())
    conversion = convert_program(program, parameters, size, options)
    outputs = [conversion.values.get(name, name) for name in program.fetches.values()]
    graph = conversion.finish(outputs)
    if graph is None:
        raise unsupported(source.title, conversion.refusals)
    return Model(
        main=graph,
        input_names=graph.arguments,
        output_names=unique(program.fetches),
        open_sizes=tuple(open_sizes(program.variables[name].sizes) for name in program.feeds),
        source_graph=(
            PaddleSourceGraph(program, conversion.builder.constants) if program.can_be_cut else None
        ),
    )


def operators() -> Mapping[str, str]:
    return {name: summary(rule.convert) for name, rule in rules().items()}


def _parameters(program: Program, files: ProgramFiles) -> dict[str, np.ndarray]:
    if files.parameters is not None:
        return read_parameters(open_source(files.parameters).content, program.parameters)
    return {name: _read_separate(name, files.folder) for name in program.parameters}


def _read_separate(name: str, folder: str) -> np.ndarray:
    """Read a parameter from its own file in the folder of the program."""
    if os.path.basename(name) != name or name in (os.curdir, os.pardir) or "\0" in name:
        raise ValueError(f"parameter '{name}' is not a valid file name")
    try:
        content = open_source(os.path.join(folder, name)).content
    except FourfoldError as error:
        what = f"parameter '{name}' of the model is missing"
        why = "there is neither a .pdiparams file nor a file of that name next to the program"
        raise ModelError(
            what, why, "put the .pdiparams next to the program, under the same name"
        ) from error
    return read_parameters(content, [name])[name]
