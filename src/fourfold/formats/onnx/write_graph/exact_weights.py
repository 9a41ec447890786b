"""Weights that stay floats beside quantised values, as integers that lose nothing of them.

ONNX Runtime takes a layer between DequantizeLinear and QuantizeLinear for one that is to be
quantised, and rounds its weights to bytes if they are floats. Integers of 32 bits it leaves alone.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fourfold.formats.onnx.write_graph.stored_values import is_widened
from fourfold.formats.writable import StoredAs, WritableModel
from fourfold.types import DType, Quantization

_LAYERS = ("conv2d", "conv3d", "depthwise_conv2d", "fully_connected", "transpose_conv2d")
_BITS = 30  # that the largest number takes; floats have 24
_LEAST = -126  # the exponent of the smallest scale that is a normal float


def keep_weights(model: WritableModel) -> WritableModel:
    """The model with its float weights and biases stored so, if it has quantised values."""
    graph, stored = model.graph, dict(model.stored)
    values = (one for name, one in stored.items() if name not in graph.constants)
    if all(one.quantization is None for one in values):
        return model
    for node in graph.nodes:
        for name in node.inputs[1:3] if node.op in _LAYERS else ():
            known = None if name is None else stored.get(name)
            if name in graph.constants and (known is None or not is_widened(known)):
                stored[str(name)] = _exact(graph.constants[str(name)])
    return replace(model, stored=stored)


def _exact(array: np.ndarray) -> StoredAs:
    """A grid of a power of two, so that neither way rounds what is not far below the largest."""
    largest = float(np.abs(array).max(initial=0.0))
    exponent = math.frexp(largest)[1] - _BITS if math.isfinite(largest) else 0
    return StoredAs(DType.I32, Quantization((2.0 ** max(exponent, _LEAST),), (0,)))
