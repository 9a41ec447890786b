"""LiteRT's interpreter, from any package that has it, and functions that run whole files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from fourfold.backends.cpu.protocol import RunModel
from fourfold.backends.cpu.runtimes import import_runtime
from fourfold.errors import DeviceError, InputError
from fourfold.support.log import Log
from fourfold.support.log.native_output import log_native_output

log = Log("backends.cpu.litert")
PACKAGES = ("ai_edge_litert", "tflite_runtime")


@cache
def runtime() -> Any | None:
    """Return the module with LiteRT's interpreter; None if no package has one that works."""
    modules = (import_runtime(f"{package}.interpreter", log) for package in PACKAGES)
    return next((module for module in modules if module is not None), None)


def make_interpreter(content: bytes, threads: int | None, plain: bool = False) -> Any:
    """Return an interpreter of a file. Raises ValueError or RuntimeError for files that LiteRT
    cannot run.

    With `plain`, LiteRT's own kernels run instead of XNNPACK's.
    """
    module = runtime()
    if module is None:
        raise DeviceError(
            "LiteRT is not installed",
            "only LiteRT can run some parts of the model",
            "install it with 'pip install fourfold[litert]'",
        )
    options: dict[str, Any] = {}
    if plain:
        own = module.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        options = {"experimental_op_resolver_type": own}
    with log_native_output(log):
        return module.Interpreter(model_content=content, num_threads=threads, **options)


def allocate(interpreter: Any) -> None:
    """Allocate tensors for the current shapes. Raises RuntimeError if that fails."""
    with log_native_output(log):
        interpreter.allocate_tensors()


def open_file(content: bytes, inputs: Sequence[np.ndarray], threads: int | None) -> RunModel:
    """Return a function that runs a file once on these inputs. Raises InputError if LiteRT does not
    accept their shapes.
    """
    interpreter = make_interpreter(content, threads)
    tensors = [detail["index"] for detail in interpreter.get_input_details()]
    results = [detail["index"] for detail in interpreter.get_output_details()]
    for tensor, array in zip(tensors, inputs, strict=True):
        interpreter.resize_tensor_input(tensor, array.shape)
    try:
        allocate(interpreter)
    except RuntimeError as error:
        why = " ".join(str(error).split())
        fix = "compare with it without --shape"
        raise InputError("LiteRT does not accept these shapes", why, fix) from error

    def run() -> Sequence[np.ndarray]:
        for tensor, array in zip(tensors, inputs, strict=True):
            interpreter.set_tensor(tensor, array)
        interpreter.invoke()
        return [interpreter.get_tensor(tensor) for tensor in results]

    return run
