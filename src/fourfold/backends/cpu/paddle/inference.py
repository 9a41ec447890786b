"""Paddle Inference's predictors, and whole models run by them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.backends.cpu.protocol import RunModel
from fourfold.errors import DeviceError, InputError
from fourfold.support.lazy import lazy_import
from fourfold.support.log import Log
from fourfold.support.log.native_output import log_native_output
from fourfold.support.packages import installed_version

if TYPE_CHECKING:
    from fourfold import formats
else:
    formats = lazy_import("fourfold.formats")

log = Log("backends.cpu.paddle")
HEAD = 8  # bytes before a part, which say how long its program is
# What it raises for a model or inputs that it cannot take.
FAILURES = (RuntimeError, ValueError, TypeError, LookupError, OSError, NotImplementedError)


def installed() -> bool:
    """Told without importing it, which takes seconds."""
    return installed_version("paddle") is not None


def version() -> str:
    """Which Paddle this is; 'none' where it is not installed."""
    found = installed_version("paddle", "paddlepaddle")
    return "none" if found is None else f"paddlepaddle {found}".strip()


@cache
def runtime() -> Any:
    """Its module for inference; DeviceError where it is not installed."""
    if not installed():
        raise DeviceError(
            "Paddle Inference is not installed",
            "parts of the model can run nowhere else",
            "install it with 'pip install fourfold[paddle]'",
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of compilers, which nobody needs here
        with log_native_output(log):
            return import_module("paddle.inference")


def _prepare(config: Any, threads: int | None, fastest: bool = False) -> Any:
    """A predictor on the CPU; the fastest kernels, those of oneDNN, do not take all programs."""
    config.disable_gpu()
    if not fastest:
        config.disable_mkldnn()
    config.disable_glog_info()
    if threads is not None:
        config.set_cpu_math_library_num_threads(threads)
    create = runtime().create_predictor
    with log_native_output(log):
        return create(config)


def open_predictor(content: bytes, threads: int | None) -> Any:
    """A predictor of a part; raises one of `FAILURES` for what it cannot run."""
    end = HEAD + int.from_bytes(content[:HEAD], "little")
    program, parameters = content[HEAD:end], content[end:]
    config = runtime().Config()
    config.set_model_buffer(program, len(program), parameters, len(parameters))
    config.switch_ir_optim(False)  # what is cut is small, and starts sooner
    return _prepare(config, threads)


def run_predictor(
    predictor: Any, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]
) -> list[np.ndarray]:
    """The outputs of these names, as new arrays."""
    for name, array in inputs.items():
        handle = predictor.get_input_handle(name)
        handle.reshape(array.shape)
        handle.copy_from_cpu(np.ascontiguousarray(array))
    predictor.run()
    return [np.asarray(predictor.get_output_handle(name).copy_to_cpu()) for name in outputs]


def open_file(
    model: str | bytes, inputs: Mapping[str, np.ndarray], threads: int | None
) -> RunModel:
    """A function that runs a model once on these inputs; InputError where Paddle does not take
    their shapes.
    """
    if isinstance(model, bytes):
        what, why = "a Paddle model is not one piece of bytes", "it is a program and parameters"
        raise InputError(what, why, "pass the path of either file")
    files = formats.model_files(model)
    if len(files) != 2:
        why = "its parameters have a file each, which Paddle Inference no longer reads"
        raise InputError(f"'{model}' cannot run there", why, "save it again with one file for all")
    try:
        return _open_tried(files, list(inputs.values()), threads, fastest=True)
    except FAILURES as error:
        log.debug("Paddle runs %s without its optimiser: %s", model, last_words(error))
    try:
        return _open_tried(files, list(inputs.values()), threads, fastest=False)
    except FAILURES as error:
        what, why = "Paddle Inference does not take these shapes", last_words(error)
        raise InputError(what, why, "compare with other shapes") from error


def _open_tried(
    files: Sequence[str], inputs: Sequence[np.ndarray], threads: int | None, fastest: bool
) -> RunModel:
    """A function that runs these files, after it has once."""
    predictor = _prepare(runtime().Config(*files), threads, fastest)
    given = dict(zip(predictor.get_input_names(), inputs, strict=True))
    names = predictor.get_output_names()

    def run() -> Sequence[np.ndarray]:
        return run_predictor(predictor, given, names)

    run()
    return run


def last_words(error: Exception) -> str:
    """What Paddle said, in short: its own words come last."""
    lines = [line.strip() for line in str(error).splitlines() if "(" in line]
    return lines[-1][:300] if lines else type(error).__name__
