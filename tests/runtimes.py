"""Installed TFLite interpreters: LiteRT, tflite_runtime, TensorFlow."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from fourfold.backends.cpu import litert

MODULES = {
    "ai_edge_litert": "ai_edge_litert.interpreter",
    "tflite_runtime": "tflite_runtime.interpreter",
    "tensorflow": "tensorflow.lite.python.interpreter",
}
INSTALLED = [name for name in MODULES if importlib.util.find_spec(name) is not None]
# A runtime that sessions use for the CPU parts of a TFLite model.
needs_litert = pytest.mark.skipif(not litert.ENGINE.installed(), reason="LiteRT is not installed")
# Importing TensorFlow takes ten seconds.
RUNTIMES = [
    pytest.param(name, marks=[pytest.mark.slow] if name == "tensorflow" else [])
    for name in INSTALLED
]


@cache
def runtime(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return import_module(MODULES[name])


def interpreter(name: str, content: bytes, *delegates: object, plain: bool = True) -> Any:
    """Return an interpreter of a model; a plain one does not use XNNPACK for other operators."""
    module = runtime(name)
    kinds = module.OpResolverType
    kind = kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES if plain else kinds.AUTO
    with warnings.catch_warnings():
        # TensorFlow warns that its interpreter moves to LiteRT.
        warnings.filterwarnings("ignore", "(?s).*deprecat")
        return module.Interpreter(
            model_content=content,
            experimental_delegates=list(delegates) or None,
            experimental_op_resolver_type=kind,
        )


def run(interpreter: Any, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the outputs for these inputs, after resizing the interpreter to them."""
    details = interpreter.get_input_details()
    for detail, array in zip(details, inputs, strict=True):
        if tuple(detail["shape"]) != array.shape:
            interpreter.resize_tensor_input(detail["index"], array.shape)
    interpreter.allocate_tensors()
    for detail, array in zip(details, inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(item["index"]) for item in interpreter.get_output_details()]
