"""The small model that the examples in the documentation run on."""

from __future__ import annotations

import numpy as np
from tflite_writer import Operator, Tensor, constant, write

CLASSES = 10


def tiny_model() -> bytes:
    """A convolution with relu6, a mean over the picture, a matrix product and a softmax."""
    generator = np.random.default_rng(3)
    filters = generator.standard_normal((8, 3, 3, 3)).astype(np.float32)
    weights = generator.standard_normal((CLASSES, 8)).astype(np.float32)
    tensors = [
        Tensor("image", (1, 32, 32, 3), signature=(-1, 32, 32, 3)),
        Tensor("filters", filters.shape, data=filters),
        Tensor("filters/bias", (8,), data=np.linspace(-1, 1, 8, dtype=np.float32)),
        Tensor("features", (1, 16, 16, 8)),
        constant("axes", [1, 2]),
        Tensor("pooled", (1, 8)),
        Tensor("weights", weights.shape, data=weights),
        Tensor("logits", (1, CLASSES)),
        Tensor("scores", (1, CLASSES)),
    ]
    convolution = {"Padding": 0, "StrideW": 2, "StrideH": 2, "FusedActivationFunction": 3}
    operators = [
        Operator(
            "CONV_2D",
            ["image", "filters", "filters/bias"],
            ["features"],
            "Conv2DOptions",
            {**convolution, "DilationWFactor": 1, "DilationHFactor": 1},
        ),
        Operator("MEAN", ["features", "axes"], ["pooled"], "ReducerOptions", {"KeepDims": False}),
        Operator("FULLY_CONNECTED", ["pooled", "weights", None], ["logits"]),
        Operator("SOFTMAX", ["logits"], ["scores"], "SoftmaxOptions", {"Beta": 1.0}),
    ]
    return write(tensors, operators, ["image"], ["scores"])
