"""explain --export: write the graph for Model Explorer or Netron."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from fourfold.backends import find_target
from fourfold.backends.null import NULL_GPU
from fourfold.cli._options import ModelArguments
from fourfold.cli._show import echo
from fourfold.config import Config
from fourfold.errors import InputError
from fourfold.runtime.profile import KernelTime
from fourfold.runtime.random_inputs import random_inputs
from fourfold.store.prepared import is_prepared
from fourfold.tools.report.model_explorer import ExploredModel, explore_model
from fourfold.tools.report.rewritten_onnx import rewritten_onnx

ONNX = "onnx"


def export(arguments: ModelArguments, form: str, output: Path | None, times: bool) -> list[Path]:
    """Write the requested files and return their paths."""
    if output is None:
        what, why = f"--export {form} has no file to write", "-o is missing"
        raise InputError(what, why, "name the file with -o FILE")
    if form == ONNX and times:
        what, why = "--times does not work with --export onnx", "ONNX files hold no times"
        raise InputError(what, why, "leave it out, or use --export model-explorer")
    if is_prepared(arguments.model):
        what, why = f"{Path(arguments.model).name} has no graph to export", "it holds only plans"
        raise InputError(what, why, "export the model that it was prepared from")
    model = arguments.readable.content
    if form == ONNX:
        options = arguments.compile_options(Config.from_environment())
        return [_write(output, rewritten_onnx(model, options))]
    explored = _explore(arguments, model)
    written = [_write(output, _encoded(explored.to_json()))]
    if times:
        measured = _encoded(explored.times_json(_profile(arguments)))
        written.append(_write(output.with_suffix(".times.json"), measured))
    return written


def _explore(arguments: ModelArguments, model: str | bytes) -> ExploredModel:
    """Explore the model compiled as a list of launches, in which nodes are kernels."""
    options = arguments.compile_options(Config.from_environment())
    device = NULL_GPU if arguments.device is None else find_target(arguments.device)
    name = Path(arguments.model).name
    return explore_model(model, name, device, replace(options, launches="list"))


def _profile(arguments: ModelArguments) -> list[KernelTime]:
    with arguments.open() as session:
        return session.profile(random_inputs(session.inputs, seed=0))


def _encoded(data: object) -> bytes:
    return json.dumps(data, indent=1).encode()


def _write(path: Path, content: bytes) -> Path:
    try:
        path.write_bytes(content)
    except OSError as error:
        what, why = f"cannot write '{path}'", error.strerror or str(error)
        raise InputError(what, why, "choose a file in a folder that can be written to") from error
    echo(f"wrote {path}", err=True)
    return path
