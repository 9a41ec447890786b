"""Compares the answers of two engines: a class, a mask, key points or boxes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Arrays = list[np.ndarray]

MIN_SCORE = 0.5  # boxes and key points below this score are ignored
MAX_DISTANCE = 0.02  # between key points, relative to the size of the image
MIN_OVERLAP = 0.9  # intersection over union of boxes that agree
MAX_MASK_DIFFERENCE = 0.004  # share of pixels


def compare(
    kind: str, ours: Sequence[Arrays], fast: Sequence[Arrays], plain: Sequence[Arrays]
) -> str:
    """Describe the agreement; an answer is right if one of the two references gives it."""
    if kind not in _KINDS:
        return "-"
    same = _KINDS[kind]
    triples = zip(ours, fast, plain, strict=True)
    wrong = sum(not (same(a, b) or same(a, c)) for a, b, c in triples)
    return f"{kind}: {f'differs on {wrong} of {len(ours)}' if wrong else 'same on all'}"


def _same_class(ours: Arrays, theirs: Arrays) -> bool:
    """Return whether our best class has the highest score of the reference."""
    scores = theirs[0].reshape(-1)
    return bool(scores[ours[0].argmax()] == scores.max())


def _same_mask(ours: Arrays, theirs: Arrays) -> bool:
    return float(np.mean(ours[0] != theirs[0])) <= MAX_MASK_DIFFERENCE


def _same_heat(ours: Arrays, theirs: Arrays) -> bool:
    """Return whether the best cell of every heat map is also a best cell of the reference."""
    mine = ours[0].reshape(-1, ours[0].shape[-1])
    other = theirs[0].reshape(mine.shape)
    columns = np.arange(mine.shape[-1])
    chosen, best = other[mine.argmax(0), columns].astype(int), other.max(0).astype(int)
    return bool((best - chosen <= 1).all())


def _same_points(ours: Arrays, theirs: Arrays) -> bool:
    """Compare [.., (y, x, score)]: confident key points are at the same position."""
    mine, other = (one[0].reshape(-1, 3) for one in (ours, theirs))
    sure = (mine[:, 2] > MIN_SCORE) & (other[:, 2] > MIN_SCORE)
    return bool((np.abs(mine[sure, :2] - other[sure, :2]) <= MAX_DISTANCE).all())


def _same_boxes(ours: Arrays, theirs: Arrays) -> bool:
    """Return whether both engines find the same confident boxes (boxes, classes, scores, count)."""
    mine, other = _sure_boxes(ours), _sure_boxes(theirs)
    all_matched = all(
        any(kind == own and _overlap(box, mine_box) >= MIN_OVERLAP for mine_box, own in mine)
        for box, kind in other
    )
    return all_matched and len(mine) == len(other)


def _sure_boxes(results: Arrays) -> list[tuple[np.ndarray, int]]:
    boxes, kinds, scores = (one[0] for one in results[:3])
    return [
        (box, int(kind))
        for box, kind, score in zip(boxes, kinds, scores, strict=True)
        if score >= MIN_SCORE
    ]


def _overlap(a: np.ndarray, b: np.ndarray) -> float:
    """Intersection over union of two boxes (top, left, bottom, right)."""
    top_left, bottom_right = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
    shared = float(np.prod(np.maximum(bottom_right - top_left, 0)))
    areas = [float(np.prod(box[2:] - box[:2])) for box in (a, b)]
    return shared / max(sum(areas) - shared, 1e-12)


_KINDS: dict[str, Callable[[Arrays, Arrays], bool]] = {
    "top class": _same_class,
    "mask": _same_mask,
    "heat maps": _same_heat,
    "key points": _same_points,
    "boxes": _same_boxes,
}
