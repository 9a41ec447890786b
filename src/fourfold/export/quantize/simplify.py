"""Prepare a graph for quantization: fuse everything that a weighted sum can absorb."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fourfold.compiler.rewrite import WRITABLE
from fourfold.errors import InputError
from fourfold.formats import Model
from fourfold.graph import Graph
from fourfold.types import silent_arithmetic

_INTEGERS = frozenset({"dequantize", "fake_quantize", "quantize"})


@silent_arithmetic()
def simplify_model(model: Model) -> Model:
    """Return the model with a simplified main graph. Raises InputError if it is quantized
    already.
    """
    done = next((node for node in model.main.nodes if node.op in _INTEGERS), None)
    if done is not None:
        why = f"its value '{done.outputs[0]}' is quantized"
        raise InputError("the model is quantized already", why, "pass the float model")
    graph = model.main
    for run in WRITABLE:
        graph = run(graph)
    return replace(model, main=graph)


def float_bytes(graph: Graph) -> int:
    """Return the size of the graph's constants as floats, in bytes."""
    return sum(np.asarray(array).nbytes for array in graph.constants.values())
