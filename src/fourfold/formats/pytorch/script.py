"""Makes ONNX files of PyTorch's programs with its own exporter. It imports PyTorch, which takes
seconds: a child process does so for files, and this one where a caller has a module already.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch


def convert(path: str) -> bytes:
    """An `ExportedProgram` in a `.pt2` file as an ONNX file."""
    return export(torch.export.load(path))


def trace(module: Any, example: tuple[Any, ...], dynamic_shapes: Any) -> Any:
    """A module as an `ExportedProgram`, as it is for inference; its mode stays as it was."""
    training = module.training
    module.eval()
    try:
        with torch.no_grad():
            return torch.export.export(module, example, dynamic_shapes=dynamic_shapes)
    finally:
        module.train(training)


def export(program: Any) -> bytes:
    """An `ExportedProgram` as an ONNX file, with the names that it has for inputs and outputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter's own old ways
        found = torch.onnx.export(
            program, dynamo=True, verbose=False, output_names=_output_names(program)
        )
    content: bytes = found.model_proto.SerializeToString()
    return content


def _output_names(program: Any) -> list[str] | None:
    """The keys where a program gives a dict; else PyTorch's own names."""
    keys = program.call_spec.out_spec.context
    count = program.call_spec.out_spec.num_leaves
    if program.call_spec.out_spec.type is not dict or len(keys) != count:
        return None
    return [str(key) for key in keys]
