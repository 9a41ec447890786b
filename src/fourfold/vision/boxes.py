"""Convert arrays from post-processing to boxes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fourfold.vision.found import Box, Corners, Edge, KeyPoint, label_for

Arrays = Mapping[str, np.ndarray]


def boxes_from_arrays(
    arrays: Arrays,
    labels: tuple[str, ...],
    names: tuple[str, ...] = (),
    edges: tuple[Edge, ...] = (),
) -> tuple[Box, ...]:
    """Return the boxes of the first picture of a batch, from the outputs of a session with
    `postprocess=`.

    Args:
        arrays: Arrays by output name: boxes, scores, count, and optionally classes and keypoints.
        labels: Class labels.
        names: Names of the key points.
        edges: Pairs of key points to connect.
    """
    classes = arrays.get("classes")
    return tuple(
        make_box(
            arrays["boxes"][0, row],
            float(arrays["scores"][0, row]),
            0 if classes is None else int(classes[0, row]),
            labels,
            _points(arrays, row, names),
            edges,
        )
        for row in range(int(arrays["count"].ravel()[0]))
    )


def make_box(
    corners: np.ndarray,
    score: float,
    number: int,
    labels: tuple[str, ...],
    points: tuple[KeyPoint, ...] = (),
    edges: tuple[Edge, ...] = (),
) -> Box:
    top, left, bottom, right = (float(one) for one in corners)
    where: Corners = (top, left, bottom, right)
    return Box(number, label_for(labels, number), score, where, points, edges if points else ())


def _points(arrays: Arrays, row: int, names: tuple[str, ...]) -> tuple[KeyPoint, ...]:
    points = arrays["keypoints"][0, row] if "keypoints" in arrays else ()
    titles = names if len(names) == len(points) else tuple(f"point {n}" for n in range(len(points)))
    return tuple(
        KeyPoint(name, float(y), float(x)) for name, (y, x) in zip(titles, points, strict=True)
    )
