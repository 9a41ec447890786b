"""Exports PyTorch modules to models."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fourfold.errors import InputError, ModelError
from fourfold.formats.pytorch import FORMAT

# Raised by the exporter for a module that it cannot export, or that fails itself.
FAILURES = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, NotImplementedError)


def from_torch(module: Any, example: Any = (), dynamic_shapes: Any = None) -> bytes:
    """Export a `torch.nn.Module` or a `torch.export.ExportedProgram` to ONNX, for `Session`.

    Inputs have the names of the module's parameters. If it returns a dict, outputs have the names
    of its keys. The module is exported in `eval()` mode.

    Args:
        module: The module, or an exported program.
        example: The arguments of the module: a tensor, or a tuple of them. A program needs none.
        dynamic_shapes: The dynamic sizes, as in `torch.export.export`.

    Returns:
        The content of an ONNX file.
    """
    converter = FORMAT.converter
    assert converter is not None
    converter.check_installed("a PyTorch module")
    script = import_module(converter.scripts[0])
    exported = hasattr(module, "graph_signature")
    if not exported and not hasattr(module, "named_parameters"):
        what, why = "from_torch needs a module", f"it got a {type(module).__name__}"
        raise InputError(what, why, "pass a torch.nn.Module or a torch.export.ExportedProgram")
    inputs = example if isinstance(example, tuple) else (example,)
    try:
        program = module if exported else script.trace(module, inputs, dynamic_shapes)
        content: bytes = script.export(program)
    except FAILURES as error:
        name = type(module).__name__
        fix = "change the module so that torch.export.export and torch.onnx.export take it"
        words = " ".join(str(error).split())[:600] or type(error).__name__
        raise ModelError(f"PyTorch cannot export {name} to ONNX", words, fix) from error
    return content
