"""Store OpenCV's results for the Caffe cases; needs opencv-python 4."""

from __future__ import annotations

import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from caffe_cases import CASES, CaffeCase
from caffe_writer import write_net
from stored_answers import write_answers


def opencv_answer(cv2: Any, case: CaffeCase, folder: Path) -> list[np.ndarray]:
    """Return the results of OpenCV's dnn module for a case."""
    path = write_net(folder, case.text, case.blobs)
    net = cv2.dnn.readNetFromCaffe(str(path), str(path.with_suffix(".caffemodel")))
    for name, array in case.arrays.items():
        net.setInput(array, name)
    return [np.asarray(array) for array in net.forward(net.getUnconnectedOutLayersNames())]


def main() -> None:
    cv2 = import_module("cv2")
    with tempfile.TemporaryDirectory() as folder:
        answers = {
            name: opencv_answer(cv2, case, Path(folder))
            for name, case in CASES.items()
            if case.judged
        }
    write_answers("caffe", answers)


if __name__ == "__main__":
    main()
