"""Makes a graph ready for quantising: nothing is left in it that a weighted sum could take in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fourfold.errors import InputError
from fourfold.formats import Model
from fourfold.graph import Graph
from fourfold.rewrite import WRITABLE
from fourfold.types import silent_arithmetic

_INTEGERS = frozenset({"dequantize", "fake_quantize", "quantize"})


@silent_arithmetic()
def simplify_model(model: Model) -> Model:
    """The model with its main graph made ready; an InputError where it is quantised already."""
    done = next((node for node in model.main.nodes if node.op in _INTEGERS), None)
    if done is not None:
        why = f"its value '{done.outputs[0]}' is one of integers that stand for real numbers"
        raise InputError("the model is quantised already", why, "pass the float model")
    graph = model.main
    for run in WRITABLE:
        graph = run(graph)
    return replace(model, main=graph)


def float_bytes(graph: Graph) -> int:
    """How much memory the constants of a graph take as floats."""
    return sum(np.asarray(array).nbytes for array in graph.constants.values())
