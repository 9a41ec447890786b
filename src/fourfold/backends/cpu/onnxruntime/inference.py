"""ONNX Runtime's sessions, and functions that run whole files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from fourfold.backends.cpu.protocol import RunModel
from fourfold.backends.cpu.runtimes import first_line, import_runtime
from fourfold.config import disable_telemetry
from fourfold.errors import DeviceError, InputError
from fourfold.support.log import Log
from fourfold.support.log.native_output import log_native_output

log = Log("backends.cpu.onnxruntime")
_ERRORS_ONLY = 3  # log level: callers cannot act on its warnings
_DTYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
}


@cache
def runtime() -> Any | None:
    """Return the module of ONNX Runtime; None if it is not installed, or does not work."""
    disable_telemetry()
    return import_runtime("onnxruntime", log)


def failures() -> tuple[type[Exception], ...]:
    """Return the exceptions for models or inputs that ONNX Runtime does not accept."""
    states = import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    errors = (getattr(states, name, None) for name in _FAILURES)
    return (RuntimeError, ValueError, *(error for error in errors if error is not None))


_FAILURES = (
    "EPFail",
    "Fail",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "NoSuchFile",
    "NotImplemented",
    "RuntimeException",
)


def open_session(model: str | bytes, threads: int | None, plain: bool = False) -> Any:
    """Return a session of a file or of bytes. Raises one of `failures` for models that it cannot
    run.

    With `plain`, ONNX Runtime runs the graph without fusing or rewriting it.
    """
    module = runtime()
    if module is None:
        raise DeviceError(
            "ONNX Runtime is not installed",
            "only ONNX Runtime can run some parts of the model",
            "install it with 'pip install fourfold[onnx]'",
        )
    options = module.SessionOptions()
    options.log_severity_level = _ERRORS_ONLY
    if plain:
        options.graph_optimization_level = module.GraphOptimizationLevel.ORT_DISABLE_ALL
    if threads is not None:
        options.intra_op_num_threads = threads
    with log_native_output(log):
        return module.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def open_file(
    model: str | bytes, inputs: Mapping[str, np.ndarray], threads: int | None
) -> RunModel:
    """Return a function that runs a file once on these inputs. Raises InputError if ONNX Runtime
    does not accept their shapes.
    """
    session = open_session(model, threads)
    names = [port.name for port in session.get_inputs()]
    feeds = dict(zip(names, inputs.values(), strict=True))
    try:
        session.run(None, feeds)
    except failures() as error:
        fix = "compare with it without --shape"
        raise InputError(
            "ONNX Runtime does not accept these shapes", first_line(error), fix
        ) from error

    def run() -> Sequence[np.ndarray]:
        results: Sequence[np.ndarray] = session.run(None, feeds)
        return results

    return run


def port_dtype(port: Any) -> np.dtype | None:
    """Return the float type of an input or output; None for other types, which graphs do not
    convert.
    """
    dtype = _DTYPES.get(port.type)
    return None if dtype is None else np.dtype(dtype)
