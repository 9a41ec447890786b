"""LiteRT's interpreter, from whichever package has it, and whole files run by it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from fourfold.backends.cpu.protocol import RunModel
from fourfold.backends.cpu.runtime_module import import_runtime
from fourfold.errors import DeviceError, InputError
from fourfold.support.log import Log
from fourfold.support.log.native_output import log_native_output

log = Log("backends.cpu.litert")
PACKAGES = ("ai_edge_litert", "tflite_runtime")


@cache
def runtime() -> Any | None:
    """The module that has LiteRT's interpreter; None where none is installed and works."""
    found = (import_runtime(f"{package}.interpreter", log) for package in PACKAGES)
    return next((module for module in found if module is not None), None)


def make_interpreter(content: bytes, threads: int | None, plain: bool = False) -> Any:
    """An interpreter of a file; raises ValueError or RuntimeError for what LiteRT cannot run.

    What is `plain` runs in LiteRT's own kernels, without those of XNNPACK.
    """
    module = runtime()
    if module is None:
        raise DeviceError(
            "LiteRT is not installed",
            "parts of the model can run nowhere else",
            "install it with 'pip install fourfold[litert]'",
        )
    more: dict[str, Any] = {}
    if plain:
        own = module.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        more = {"experimental_op_resolver_type": own}
    with log_native_output(log):
        return module.Interpreter(model_content=content, num_threads=threads, **more)


def allocate(interpreter: Any) -> None:
    """Make it ready for the shapes that it has; RuntimeError where it cannot be."""
    with log_native_output(log):
        interpreter.allocate_tensors()


def open_file(content: bytes, inputs: Sequence[np.ndarray], threads: int | None) -> RunModel:
    """A function that runs a file once on these inputs; InputError where LiteRT does not take
    their shapes.
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
        raise InputError("LiteRT does not take these shapes", why, fix) from error

    def run() -> Sequence[np.ndarray]:
        for tensor, array in zip(tensors, inputs, strict=True):
            interpreter.set_tensor(tensor, array)
        interpreter.invoke()
        return [interpreter.get_tensor(tensor) for tensor in results]

    return run
