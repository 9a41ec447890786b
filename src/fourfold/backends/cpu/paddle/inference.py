"""Paddle Inference's predictors, and functions that run whole models."""

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
HEAD = 8  # bytes at the start of a part, with the length of its program
# Exceptions for models or inputs that Paddle does not accept.
FAILURES = (RuntimeError, ValueError, TypeError, LookupError, OSError, NotImplementedError)


def installed() -> bool:
    """Return whether Paddle is installed, without importing it, which takes seconds."""
    return installed_version("paddle") is not None


def version() -> str:
    """Return the version of Paddle; 'none' if it is not installed."""
    number = installed_version("paddle", "paddlepaddle")
    return "none" if number is None else f"paddlepaddle {number}".strip()


@cache
def runtime() -> Any:
    """Return its inference module. Raises DeviceError if it is not installed."""
    if not installed():
        raise DeviceError(
            "Paddle Inference is not installed",
            "only Paddle Inference can run some parts of the model",
            "install it with 'pip install fourfold[paddle]'",
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about missing compilers, which are not needed
        with log_native_output(log):
            return import_module("paddle.inference")


def _prepare(config: Any, threads: int | None, fastest: bool = False) -> Any:
    """Return a predictor on the CPU. The fastest kernels, those of oneDNN, do not run all
    programs.
    """
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
    """Return a predictor of a part. Raises one of `FAILURES` for programs that it cannot run."""
    end = HEAD + int.from_bytes(content[:HEAD], "little")
    program, parameters = content[HEAD:end], content[end:]
    config = runtime().Config()
    config.set_model_buffer(program, len(program), parameters, len(parameters))
    config.switch_ir_optim(False)  # parts are small, and start sooner without it
    return _prepare(config, threads)


def run_predictor(
    predictor: Any, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]
) -> list[np.ndarray]:
    """Return the outputs with these names, as new arrays."""
    for name, array in inputs.items():
        handle = predictor.get_input_handle(name)
        handle.reshape(array.shape)
        handle.copy_from_cpu(np.ascontiguousarray(array))
    predictor.run()
    return [np.asarray(predictor.get_output_handle(name).copy_to_cpu()) for name in outputs]


def open_file(
    model: str | bytes, inputs: Mapping[str, np.ndarray], threads: int | None
) -> RunModel:
    """Return a function that runs a model once on these inputs. Raises InputError if Paddle does
    not accept their shapes.
    """
    if isinstance(model, bytes):
        what, why = "a Paddle model cannot be passed as bytes", "it has two files"
        raise InputError(what, why, "pass the path of the program or of the parameters")
    files = formats.model_files(model)
    if len(files) != 2:
        why = "its parameters are in separate files, which Paddle Inference no longer reads"
        fix = "save it again with all parameters in one file"
        raise InputError(f"Paddle Inference cannot run '{model}'", why, fix)
    try:
        return _open_tried(files, list(inputs.values()), threads, fastest=True)
    except FAILURES as error:
        log.debug("Paddle runs %s without oneDNN: %s", model, last_words(error))
    try:
        return _open_tried(files, list(inputs.values()), threads, fastest=False)
    except FAILURES as error:
        what, why = "Paddle Inference does not accept these shapes", last_words(error)
        raise InputError(what, why, "compare with other shapes") from error


def _open_tried(
    files: Sequence[str], inputs: Sequence[np.ndarray], threads: int | None, fastest: bool
) -> RunModel:
    """Return a function that runs these files, after a first run that checks it."""
    predictor = _prepare(runtime().Config(*files), threads, fastest)
    feeds = dict(zip(predictor.get_input_names(), inputs, strict=True))
    names = predictor.get_output_names()

    def run() -> Sequence[np.ndarray]:
        return run_predictor(predictor, feeds, names)

    run()
    return run


def last_words(error: Exception) -> str:
    """Return Paddle's message, which is at the end of the error text."""
    lines = [line.strip() for line in str(error).splitlines() if "(" in line]
    return lines[-1][:300] if lines else type(error).__name__
