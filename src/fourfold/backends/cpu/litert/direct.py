"""The shortest way through LiteRT, for a model of which all runs there: from names to names."""

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
    """A run of a whole model, its arrays by name, by position or alone; the results are new.

    LiteRT itself refuses other shapes. Where anything does not fit, the run has done nothing and
    gives None: whoever called it can look closer.
    """
    put, invoke, get = interpreter.set_tensor, interpreter.invoke, interpreter.get_tensor
    types = {detail["index"]: detail["dtype"] for detail in interpreter.get_input_details()}
    sources = [(name, tensor, np.dtype(types[tensor])) for name, tensor in inputs.items()]
    results, count, ndarray = list(outputs.items()), len(sources), np.ndarray

    def run(given: Any) -> Results | None:
        if type(given) is not dict:
            given = _by_name(inputs, given)
        if len(given) != count:
            return None
        with lock:
            try:
                for name, tensor, dtype in sources:
                    array = given[name]
                    if type(array) is not ndarray or array.dtype is not dtype:
                        return None
                    put(tensor, array)
            except (AttributeError, KeyError, ValueError):
                return None
            try:
                invoke()
            except RuntimeError as error:
                raise failure(error) from error
            found = {}
            for name, tensor in results:  # faster than a comprehension before Python 3.12
                found[name] = get(tensor)
            return found

    return run


def _by_name(names: Mapping[str, TensorId], given: object) -> dict[str, Any]:
    """Arrays by position, or one alone; nothing where their number is another."""
    arrays = given if isinstance(given, list | tuple) else [given]
    return dict(zip(names, arrays, strict=True)) if len(arrays) == len(names) else {}


def failure(error: RuntimeError) -> DeviceError:
    """What LiteRT said when it could not run."""
    return DeviceError(
        "LiteRT could not run its part of the model",
        " ".join(str(error).split()) or "it gave no reason",
        "check that the inputs are what the model expects; LiteRT alone would fail, too",
    )
