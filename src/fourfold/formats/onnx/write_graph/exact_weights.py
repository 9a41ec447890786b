"""Stores float weights next to quantized values losslessly, as int32.

ONNX Runtime quantizes a layer between DequantizeLinear and QuantizeLinear, and rounds its weights
to 8 bits if they are floats. It leaves int32 weights alone.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fourfold.formats.onnx.write_graph.stored_values import is_widened
from fourfold.formats.writable import StoredAs, WritableModel
from fourfold.types import DType, Quantization

_LAYERS = ("conv2d", "conv3d", "depthwise_conv2d", "fully_connected", "transpose_conv2d")
_BITS = 30  # bits of the largest number; float32 has 24
_MIN_EXPONENT = -126  # exponent of the smallest scale that is a normal float32


def keep_weights(model: WritableModel) -> WritableModel:
    """Store float weights and biases as int32, if the model has quantized values."""
    graph, stored = model.graph, dict(model.stored)
    values = (one for name, one in stored.items() if name not in graph.constants)
    if all(one.quantization is None for one in values):
        return model
    for node in graph.nodes:
        for name in node.inputs[1:3] if node.op in _LAYERS else ():
            current = None if name is None else stored.get(name)
            if name in graph.constants and (current is None or not is_widened(current)):
                stored[str(name)] = _exact(graph.constants[str(name)])
    return replace(model, stored=stored)


def _exact(array: np.ndarray) -> StoredAs:
    """Return int32 storage with a power-of-two scale, so that only tiny numbers are rounded."""
    largest = float(np.abs(array).max(initial=0.0))
    exponent = math.frexp(largest)[1] - _BITS if math.isfinite(largest) else 0
    return StoredAs(DType.I32, Quantization((2.0 ** max(exponent, _MIN_EXPONENT),), (0,)))
