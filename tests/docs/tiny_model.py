"""Small models that the examples in the documentation use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import metadata_writer as about
import numpy as np
from tflite_writer import Operator, Signature, Tensor, constant, write

CLASSES = 10


ANIMALS = ["cat", "dog", "bird", "fish", "horse", "sheep", "cow", "bear", "frog", "mouse"]


def tiny_described_model() -> bytes:
    """Return `tiny_model` with a signature, labels, and image normalization."""
    scaling = about.unit(about.NORMALIZATION, {0: [127.5], 1: [127.5]})
    picture = about.tensor("picture", content=about.image(), units=[scaling])
    scores = about.tensor("animal", files=[about.file("labels.txt", about.AXIS_LABELS)])
    notes = {"TFLITE_METADATA": about.flatbuffer(about.model("animals", [picture], [scores]))}
    signature = Signature("classify", {"photo": 0}, {"animal": 8})
    result = tiny_model(signatures=[signature], metadata=notes)
    return result + about.archive({"labels.txt": "\n".join(ANIMALS).encode()})


def tiny_detector() -> bytes:
    """Return `tiny_model` with a second output, which has its own matrix."""
    boxes = np.random.default_rng(4).standard_normal((4, 8)).astype(np.float32)
    tensors = [Tensor("sides", boxes.shape, data=boxes), Tensor("boxes", (1, 4))]
    head = Operator("FULLY_CONNECTED", ["pooled", "sides", None], ["boxes"])
    return tiny_model(tensors, [head], ["boxes"])


def tiny_model(
    more_tensors: Sequence[Tensor] = (),
    more_operators: Sequence[Operator] = (),
    more_outputs: Sequence[str] = (),
    **more: Any,
) -> bytes:
    """Return a convolution with relu6, a mean over the image, a matrix product and a softmax."""
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
        *more_tensors,
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
        *more_operators,
    ]
    return write(tensors, operators, ["image"], ["scores", *more_outputs], **more)


def tiny_second_model() -> bytes:
    """Return a model that takes the scores of `tiny_model` and groups its classes in three."""
    weights = np.random.default_rng(5).random((3, CLASSES), np.float32)
    tensors = [
        Tensor("scores", (1, CLASSES)),
        Tensor("weights", weights.shape, data=weights),
        Tensor("groups", (1, 3)),
    ]
    product = Operator("FULLY_CONNECTED", ["scores", "weights", None], ["groups"])
    return write(tensors, [product], ["scores"], ["groups"])


def tiny_quantized_model() -> bytes:
    """Return the model in int8, with one scale for each channel of the filters."""
    generator = np.random.default_rng(3)
    filters = generator.integers(-127, 127, (8, 3, 3, 3)).astype(np.int8)
    bias = generator.integers(-900, 900, 8).astype(np.int32)
    weights = generator.integers(-127, 127, (CLASSES, 8)).astype(np.int8)
    by_channel = {"zero_point": [0] * 8, "axis": 0}
    features = {"scale": [6 / 255], "zero_point": [-128]}
    tensors = [
        Tensor("image", (1, 32, 32, 3), "int8", scale=[1 / 128], zero_point=[0]),
        Tensor("filters", filters.shape, "int8", filters, scale=[0.01] * 8, **by_channel),
        Tensor("bias", bias.shape, "int32", bias, scale=[0.01 / 128] * 8, **by_channel),
        Tensor("features", (1, 16, 16, 8), "int8", **features),
        constant("axes", [1, 2]),
        Tensor("pooled", (1, 8), "int8", **features),
        Tensor("weights", weights.shape, "int8", weights, scale=[0.02], zero_point=[0]),
        Tensor("logits", (1, CLASSES), "int8", scale=[0.05], zero_point=[-8]),
        Tensor("scores", (1, CLASSES), "int8", scale=[1 / 256], zero_point=[-128]),
    ]
    convolution = {"Padding": 0, "StrideW": 2, "StrideH": 2, "FusedActivationFunction": 3}
    operators = [
        Operator(
            "CONV_2D",
            ["image", "filters", "bias"],
            ["features"],
            "Conv2DOptions",
            {**convolution, "DilationWFactor": 1, "DilationHFactor": 1},
        ),
        Operator("MEAN", ["features", "axes"], ["pooled"], "ReducerOptions", {"KeepDims": False}),
        Operator(
            "FULLY_CONNECTED", ["pooled", "weights", None], ["logits"], "FullyConnectedOptions"
        ),
        Operator("SOFTMAX", ["logits"], ["scores"], "SoftmaxOptions", {"Beta": 1.0}),
    ]
    return write(tensors, operators, ["image"], ["scores"])
