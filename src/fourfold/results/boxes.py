"""Boxes of arrays, as post-processing gives them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fourfold.results.found import Box, Corners, Edge, KeyPoint, label_at

Arrays = Mapping[str, np.ndarray]


def boxes_of(
    found: Arrays,
    labels: tuple[str, ...],
    names: tuple[str, ...] = (),
    edges: tuple[Edge, ...] = (),
) -> tuple[Box, ...]:
    """The boxes of the first picture of a batch, as sessions with `postprocess=` give them. `names`
    and `edges` are those of the key points.
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
