"""LiteRT's CPU runtime as the one to compare with, where it is installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from fourfold.cpu.litert import refuses_shapes


def open_litert(
    model: str, inputs: Sequence[np.ndarray], threads: int
) -> Callable[[], Sequence[np.ndarray]] | None:
    """A function that runs the model once on these inputs; None where LiteRT is not installed.

    Raises InputError where LiteRT does not take the shapes.
    """
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        return None
    interpreter = Interpreter(model_content=Path(model).read_bytes(), num_threads=threads)
    places = [detail["index"] for detail in interpreter.get_input_details()]
    results = [detail["index"] for detail in interpreter.get_output_details()]
    for place, array in zip(places, inputs, strict=True):
        interpreter.resize_tensor_input(place, array.shape)
    try:
        interpreter.allocate_tensors()
    except RuntimeError as error:
        raise refuses_shapes(error) from error

    def run() -> Sequence[np.ndarray]:
        for place, array in zip(places, inputs, strict=True):
            interpreter.set_tensor(place, array)
        interpreter.invoke()
        return [interpreter.get_tensor(place) for place in results]

    return run
