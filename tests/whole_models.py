"""Caffe and Paddle models in the shared folder, and their stored results.

Run as a script with 'caffe' or 'paddle', it stores the results; needs OpenCV or Paddle.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
from model_collection import MODELS
from paddle_answers import paddle_answer
from stored_answers import numbers, write_answers


@dataclass(frozen=True)
class WholeModel:
    """A model with its path below the shared folder, its input, and the input's shape."""

    path: str
    input: str
    shape: tuple[int, ...]

    @property
    def file(self) -> Path:
        return MODELS / self.path

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {self.input: numbers(self.shape)}


CAFFE = {"rfb": WholeModel("caffe/RFB-320.prototxt", "input", (1, 3, 240, 320))}
PADDLE = {
    "cls": WholeModel(
        "paddle/ch_ppocr_mobile_v2_cls_infer/inference.pdmodel", "x", (1, 3, 48, 192)
    ),
    "det": WholeModel("paddle/ch_PP-OCRv4_det_infer/inference.pdmodel", "x", (1, 3, 96, 160)),
}


def opencv_answer(model: WholeModel) -> list[np.ndarray]:
    cv2 = import_module("cv2")
    weights = model.file.with_suffix(".caffemodel")
    net = cv2.dnn.readNetFromCaffe(str(model.file), str(weights))
    net.setInput(model.arrays[model.input])
    return [np.asarray(array) for array in net.forward(net.getUnconnectedOutLayersNames())]


def main(kind: str) -> None:
    if kind == "caffe":
        answers = {name: opencv_answer(model) for name, model in CAFFE.items()}
    else:
        inference = import_module("paddle.inference")
        answers = {
            name: paddle_answer(inference, model.file, model.arrays)
            for name, model in PADDLE.items()
        }
    write_answers(f"{kind}_models", answers)


if __name__ == "__main__":
    main(sys.argv[1])
