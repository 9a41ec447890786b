"""Converts PyTorch programs to ONNX with PyTorch's exporter.

Importing PyTorch takes seconds: files are converted in a child process, modules of a caller in this
one.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch


def convert(path: str) -> bytes:
    """Convert an `ExportedProgram` in a `.pt2` file to an ONNX file."""
    return export(torch.export.load(path))


def trace(module: Any, example: tuple[Any, ...], dynamic_shapes: Any) -> Any:
    """Export a module as an `ExportedProgram` in inference mode, and restore its mode."""
    training = module.training
    module.eval()
    try:
        with torch.no_grad():
            return torch.export.export(module, example, dynamic_shapes=dynamic_shapes)
    finally:
        module.train(training)


def export(program: Any) -> bytes:
    """Convert an `ExportedProgram` to an ONNX file that keeps the names of inputs and outputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own deprecation warnings
        exported = torch.onnx.export(
            program, dynamo=True, verbose=False, output_names=_output_names(program)
        )
    content: bytes = exported.model_proto.SerializeToString()
    return content


def _output_names(program: Any) -> list[str] | None:
    """Return the keys if a program returns a dict; else None for PyTorch's own names."""
    keys = program.call_spec.out_spec.context
    count = program.call_spec.out_spec.num_leaves
    if program.call_spec.out_spec.type is not dict or len(keys) != count:
        return None
    return [str(key) for key in keys]
