"""The fast path of a model that runs whole in LiteRT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fourfold.backends.cpu.protocol import Direct, Lock, Results
from fourfold.errors import DeviceError
from fourfold.plan.tensor_binding import TensorId


def make_direct(
    interpreter: Any, inputs: Mapping[str, TensorId], outputs: Mapping[str, TensorId], lock: Lock
) -> Direct:
    """Return a function that runs a whole model on arrays by name, by position, or one array.
    Results are new arrays.

    LiteRT itself refuses wrong shapes. If an input does not match, the function returns None
    without running, and the caller takes the normal path.
    """
    put, invoke, get = interpreter.set_tensor, interpreter.invoke, interpreter.get_tensor
    types = {detail["index"]: detail["dtype"] for detail in interpreter.get_input_details()}
    sources = [(name, tensor, np.dtype(types[tensor])) for name, tensor in inputs.items()]
    results, count, ndarray = list(outputs.items()), len(sources), np.ndarray

    def run(values: Any) -> Results | None:
        if type(values) is not dict:
            values = _by_name(inputs, values)
        if len(values) != count:
            return None
        with lock:
            try:
                for name, tensor, dtype in sources:
                    array = values[name]
                    if type(array) is not ndarray or array.dtype is not dtype:
                        return None
                    put(tensor, array)
            except (AttributeError, KeyError, ValueError):
                return None
            try:
                invoke()
            except RuntimeError as error:
                raise failure(error) from error
            arrays = {}
            for name, tensor in results:  # faster than a comprehension before Python 3.12
                arrays[name] = get(tensor)
            return arrays

    return run


def _by_name(names: Mapping[str, TensorId], values: object) -> dict[str, Any]:
    """Return arrays passed by position, or one array, by name; an empty dict if their number is
    wrong.
    """
    arrays = values if isinstance(values, list | tuple) else [values]
    return dict(zip(names, arrays, strict=True)) if len(arrays) == len(names) else {}


def failure(error: RuntimeError) -> DeviceError:
    """Return the error for a failed run, with LiteRT's message."""
    return DeviceError(
        "LiteRT could not run its part of the model",
        " ".join(str(error).split()) or "LiteRT returned no message",
        "check that the inputs are what the model expects; LiteRT itself reports this error",
    )
