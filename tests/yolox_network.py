"""A small detector with YOLOX's output: raw rows of 64 + 16 + 4 cells, for pictures of 64 x 64."""

from __future__ import annotations

import numpy as np
from onnx_writer import graph, model, node

SIDE, CLASSES, STRIDES = 64, 3, (8, 16, 32)
COLUMNS = 5 + CLASSES


def yolox_model(decodes: bool = False) -> bytes:
    """Return a detector of blue cells, which sees them only in BGR pixels from 0 to 255.

    Boxes are as large as their cells, and of class 1. With `decodes`, an operator hints that the
    export decodes boxes itself.
    """
    constants: dict[str, np.ndarray] = {}
    nodes = []
    for stride in STRIDES:
        weights = np.zeros((COLUMNS, 3, stride, stride), np.float32)
        weights[4, 0] = 1 / 16 / stride**2  # the mean of the first channel, in 16ths
        bias = np.array([0.5, 0.5, 0, 0, -12, -9, 9, -9], np.float32)
        bias[4] = -12.0 if stride == STRIDES[1] else -99.0  # only cells of 16 pixels see
        constants |= {f"w{stride}": weights, f"b{stride}": bias}
        shape = np.array([1, COLUMNS, -1], np.int64)
        constants[f"s{stride}"] = shape
        nodes += [
            node(
                "Conv",
                ["images", f"w{stride}", f"b{stride}"],
                [f"c{stride}"],
                strides=[stride, stride],
            ),
            node("Reshape", [f"c{stride}", f"s{stride}"], [f"r{stride}"]),
        ]
    constants["split"] = np.array([4, 1 + CLASSES], np.int64)
    nodes += [
        node("Concat", [f"r{stride}" for stride in STRIDES], ["all"], axis=2),
        node("Split", ["all", "split"], ["places", "logits"], axis=1),
        node("Sigmoid", ["logits"], ["shares"]),
        node("Exp" if decodes else "Identity", ["places"], ["decoded"]),
        node("Concat", ["decoded", "shares"], ["columns"], axis=1),
        node("Transpose", ["columns"], ["output"], perm=[0, 2, 1]),
    ]
    ports = [("images", "float", (1, 3, SIDE, SIDE))], [("output", "float", (1, 84, COLUMNS))]
    return model(graph(nodes, *ports, constants))
