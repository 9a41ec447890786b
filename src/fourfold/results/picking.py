"""Boxes of raw outputs, by NumPy: the nodes that `postprocess=` puts behind a model, run alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from fourfold.cpu.reference import evaluate
from fourfold.formats import Model
from fourfold.graph import Graph
from fourfold.postprocess import attach_postprocess
from fourfold.processing.option import Processing
from fourfold.results.found import Box, Corners, Edge, KeyPoint, label_at
from fourfold.types import TensorType

Types = tuple[tuple[str, TensorType], ...]
Arrays = Mapping[str, np.ndarray]


def pick_boxes(option: Processing, outputs: Arrays) -> dict[str, np.ndarray]:
    """What the option makes of these outputs of a model: `boxes`, `scores`, `count` and more."""
    real = {name: np.asarray(array, np.float32) for name, array in outputs.items()}
    types = tuple((name, TensorType.of(array)) for name, array in real.items())
    model = _decoder(option, types)
    results = evaluate(model.main, real)
    ports = zip(model.output_names, model.main.results, strict=True)
    return {name: results[value] for name, value in ports}


@lru_cache(maxsize=16)  # frames of a video are all of the same shapes
def _decoder(option: Processing, types: Types) -> Model:
    names = tuple(name for name, _ in types)
    outputs = Graph((), names, names, dict(types))
    return attach_postprocess(Model(outputs, names, names), option)


def boxes_of(
    found: Arrays,
    labels: tuple[str, ...],
    names: tuple[str, ...] = (),
    edges: tuple[Edge, ...] = (),
) -> tuple[Box, ...]:
    """The boxes of the first picture of a batch, as `pick_boxes` and sessions with such an option
    give them. `names` and `edges` are those of the key points.
    """
    classes = found.get("classes")
    return tuple(
        box_at(
            found["boxes"][0, place],
            float(found["scores"][0, place]),
            0 if classes is None else int(classes[0, place]),
            labels,
            _points(found, place, names),
            edges,
        )
        for place in range(int(found["count"].ravel()[0]))
    )


def box_at(
    corners: np.ndarray,
    score: float,
    number: int,
    labels: tuple[str, ...],
    points: tuple[KeyPoint, ...] = (),
    edges: tuple[Edge, ...] = (),
) -> Box:
    top, left, bottom, right = (float(one) for one in corners)
    where: Corners = (top, left, bottom, right)
    return Box(number, label_at(labels, number), score, where, points, edges if points else ())


def _points(found: Arrays, place: int, names: tuple[str, ...]) -> tuple[KeyPoint, ...]:
    rows = found["keypoints"][0, place] if "keypoints" in found else ()
    titles = names if len(names) == len(rows) else tuple(f"point {n}" for n in range(len(rows)))
    return tuple(
        KeyPoint(name, float(y), float(x)) for name, (y, x) in zip(titles, rows, strict=True)
    )
