"""Modules of PyTorch that a caller has in hand, as models."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fourfold.errors import InputError, ModelError
from fourfold.formats.pytorch import FORMAT

# What the exporter raises for a module that it cannot take, or that itself fails.
FAILURES = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, NotImplementedError)


def from_torch(module: Any, example: Any = (), dynamic_shapes: Any = None) -> bytes:
    """A model for `Session` from a `torch.nn.Module` or a `torch.export.ExportedProgram`: the bytes
    of an ONNX file.

    `example` is what the module is called with: a tensor, or a tuple of them; a program has it
    already. `dynamic_shapes` says which sizes stay open, as in `torch.export.export`. Inputs have
    the names of the module's own parameters, and where it gives a dict, outputs those of its keys.
    The module is exported as it is in `eval()`.
    """
    converter = FORMAT.converter
    assert converter is not None
    converter.check_installed("a module of PyTorch")
    script = import_module(converter.scripts[0])
    exported = hasattr(module, "graph_signature")
    if not exported and not hasattr(module, "named_parameters"):
        what, why = "from_torch got no module", f"it is of type {type(module).__name__}"
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
