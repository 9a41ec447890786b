"""A small float TFLite model: two convolutions, a tanh and a transpose."""

from __future__ import annotations

from typing import Any

import numpy as np
import tflite_writer as writer

CONV = "Conv2DOptions"
STRIDES = {"StrideH": 1, "StrideW": 1}


def conv(name: str, source: str, size: int, channels: tuple[int, int]) -> tuple[Any, ...]:
    generator = np.random.default_rng(len(name))
    shape = (channels[1], size, size, channels[0])
    weights = generator.normal(0, 0.1, shape).astype(np.float32)
    bias = np.zeros(channels[1], np.float32)
    return (
        [
            writer.Tensor(f"{name}/w", shape, data=weights),
            writer.Tensor(f"{name}/b", bias.shape, data=bias),
            writer.Tensor(name, (1, 32, 32, channels[1])),
        ],
        writer.Operator("CONV_2D", [source, f"{name}/w", f"{name}/b"], [name], CONV, STRIDES),
    )


def network() -> bytes:
    """Return the model: three input channels, a 9x9 filter, 33 channels, a tanh, and a final
    transpose.
    """
    first, wide = conv("first", "x", 9, (3, 32))
    second, odd = conv("second", "first", 3, (32, 33))
    order = writer.constant("order", [0, 2, 1, 3])
    tensors = [
        writer.Tensor("x", (1, 32, 32, 3), signature=(-1, 32, 32, 3)),
        *first,
        *second,
        writer.Tensor("t", (1, 32, 32, 33)),
        order,
        writer.Tensor("y", (1, 32, 32, 33)),
    ]
    operators = [
        wide,
        odd,
        writer.Operator("TANH", ["second"], ["t"]),
        writer.Operator("TRANSPOSE", ["t", "order"], ["y"], "TransposeOptions"),
    ]
    return writer.write(tensors, operators, ["x"], ["y"])
