"""ONNX Runtime's sessions, and whole files run by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from fourfold.backends.cpu.protocol import RunModel
from fourfold.backends.cpu.refusal import first_line
from fourfold.backends.cpu.runtime_module import import_runtime
from fourfold.errors import DeviceError, InputError
from fourfold.support.log import Log
from fourfold.support.log.native_output import log_native_output

log = Log("backends.cpu.onnxruntime")
_ERRORS_ONLY = 3  # of its levels of logging: what it warns of is nothing that a caller can change
_DTYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
}


@cache
def runtime() -> Any | None:
    """The module of ONNX Runtime; None where it is not installed, or does not work."""
    return import_runtime("onnxruntime", log)


def failures() -> tuple[type[Exception], ...]:
    """What it raises for a model or inputs that it cannot take."""
    states = import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    found = (getattr(states, name, None) for name in _FAILURES)
    return (RuntimeError, ValueError, *(error for error in found if error is not None))


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
    """A session of a file or of bytes; raises one of `failures` for what it cannot run.

    A plain one runs the graph as it is: ONNX Runtime fuses and rewrites nothing.
    """
    module = runtime()
    if module is None:
        raise DeviceError(
            "ONNX Runtime is not installed",
            "parts of the model can run nowhere else",
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
    """A function that runs a file once on these inputs; InputError where ONNX Runtime does not
    take their shapes.
    """
    session = open_session(model, threads)
    names = [port.name for port in session.get_inputs()]
    given = dict(zip(names, inputs.values(), strict=True))
    try:
        session.run(None, given)
    except failures() as error:
        fix = "compare with it without --shape"
        raise InputError(
            "ONNX Runtime does not take these shapes", first_line(error), fix
        ) from error

    def run() -> Sequence[np.ndarray]:
        found: Sequence[np.ndarray] = session.run(None, given)
        return found

    return run


def port_dtype(port: Any) -> np.dtype | None:
    """The float type of an input or output; None for any other, which graphs have as it is."""
    found = _DTYPES.get(port.type)
    return None if found is None else np.dtype(found)
