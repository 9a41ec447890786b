"""Small TFLite files written by the tests, so that there is always something to damage."""

from __future__ import annotations

from collections.abc import Callable

import metadata_writer as about
import numpy as np
from tflite_writer import Level, Operator, Signature, Sparsity, Tensor, constant, write


def _convolution() -> bytes:
    weights = np.linspace(-1, 1, 2 * 3 * 3 * 2, dtype=np.float32).reshape(2, 3, 3, 2)
    fields = {"StrideH": 2, "StrideW": 1, "FusedActivationFunction": 3}
    tensors = [
        Tensor("x", (1, 5, 7, 2), signature=(-1, 5, 7, 2)),
        Tensor("w", weights.shape, data=weights),
        constant("b", [1, 2], "float32"),
        Tensor("c", (1, 3, 7, 2)),
        constant("axes", [1, 2]),
        Tensor("y", (1, 2)),
    ]
    operators = [
        Operator("CONV_2D", ["x", "w", "b"], ["c"], "Conv2DOptions", fields),
        Operator("MEAN", ["c", "axes"], ["y"], "ReducerOptions", {"KeepDims": False}),
    ]
    signatures = [Signature("serve", {"image": 0}, {"scores": 5})]
    return write(tensors, operators, ["x"], ["y"], signatures=signatures, metadata={"m": b"1234"})


def _shapes() -> bytes:
    tensors = [
        Tensor("x", (2, 3, 4)),
        Tensor("shape", (3,), "int32"),
        *(constant(name, value) for name, value in (("b", [0]), ("e", [1]), ("s", [1]))),
        Tensor("n", (), "int32"),
        constant("rest", 12),
        Tensor("target", (2,), "int32"),
        Tensor("r", (2, 12)),
        constant("pads", [[0, 0], [1, 2]]),
        Tensor("p", (2, 15)),
        constant("times", [2, 3]),
        Tensor("y", (4, 45)),
    ]
    fields = {"ShrinkAxisMask": 1}
    operators = [
        Operator("SHAPE", ["x"], ["shape"], "ShapeOptions", {"OutType": 2}),
        Operator("STRIDED_SLICE", ["shape", "b", "e", "s"], ["n"], "StridedSliceOptions", fields),
        Operator("PACK", ["n", "rest"], ["target"], "PackOptions", {"ValuesCount": 2}),
        Operator("RESHAPE", ["x", "target"], ["r"]),
        Operator("PAD", ["r", "pads"], ["p"]),
        Operator("TILE", ["p", "times"], ["y"]),
    ]
    return write(tensors, operators, ["x"], ["y"])


def _weights() -> bytes:
    level = Level(segments=np.array([0, 1, 3], np.int32), indices=np.array([1, 0, 2], np.uint8))
    sparsity = Sparsity([0, 1], [Level(2), level])
    stored = np.arange(6, dtype=np.int8).reshape(3, 2)
    tensors = [
        Tensor("x", (1, 3)),
        Tensor("s", (2, 3), data=np.ones(3, np.float32), sparsity=sparsity),
        Tensor("d", (2, 3)),
        Tensor("u", (1, 2)),
        Tensor("q", (3, 2), "int8", stored, (0.5, 0.25, 1.0), (0, 0, 0)),
        Tensor("v", (1, 3)),
        constant("size", [1, 3]),
        constant("value", 2.0, "float32"),
        Tensor("f", (1, 3)),
        Tensor("y", (1, 3)),
    ]
    operators = [
        Operator("DENSIFY", ["s"], ["d"]),
        Operator("FULLY_CONNECTED", ["x", "d", None], ["u"], "FullyConnectedOptions"),
        Operator("FULLY_CONNECTED", ["u", "q", None], ["v"], "FullyConnectedOptions"),
        Operator("FILL", ["size", "value"], ["f"]),
        Operator("MUL", ["v", "f"], ["y"], "MulOptions", {"FusedActivationFunction": 1}),
    ]
    return write(tensors, operators, ["x"], ["y"])


def _described() -> bytes:
    """Return a model with metadata, an archive of labels, and two signatures."""
    scaling = about.unit(about.NORMALIZATION, {0: [127.5], 1: [127.5]})
    picture = about.tensor("image", content=about.image(), units=[scaling], dimensions=["a", "b"])
    files = [about.file("labels.txt", about.AXIS_LABELS, "en"), about.file("c.txt", 4)]
    units = [about.unit(about.SCORE_CALIBRATION, {1: 0.5}), about.unit(about.THRESHOLD, {0: 0.1})]
    scores = about.tensor("scores", units=units, files=files, stats={0: [1.0], 1: [0.0]})
    notes = {"TFLITE_METADATA": about.flatbuffer(about.model("m", [picture], [scores]))}
    ways = [Signature(name, {"image": 0}, {"scores": 1}) for name in ("serve", "again")]
    tensors = [Tensor("x", (1, 4)), Tensor("y", (1, 4))]
    operators = [Operator("LOGISTIC", ["x"], ["y"])]
    result = write(tensors, operators, ["x"], ["y"], signatures=ways, metadata=notes)
    return result + about.archive({"labels.txt": b"a\nb\nc\nd\n", "c.txt": b"1,2,3\n"})


MODELS: dict[str, Callable[[], bytes]] = {
    "convolution": _convolution,
    "shapes": _shapes,
    "weights": _weights,
    "described": _described,
}
