"""Average precision follows COCO's definition, in cases computed by hand and in random ones."""

from __future__ import annotations

import numpy as np
import pytest

from fourfold.tools.accuracy.average_precision import (
    IOU_THRESHOLDS,
    PictureBoxes,
    average_precisions,
)

Rows = list[tuple[float, ...]]
ONE, OTHER, EMPTY = (0.0, 0.0, 10.0, 10.0), (50.0, 50.0, 20.0, 10.0), (80.0, 0.0, 5.0, 5.0)


def picture(found: Rows, truths: Rows, crowds: tuple[int, ...] = ()) -> PictureBoxes:
    """Return boxes: rows of left, top, width, height, and the score of those that were found."""
    rows = np.array(found, float).reshape(-1, 5)
    in_crowd = np.isin(np.arange(len(truths)), crowds)
    return PictureBoxes(rows[:, :4], rows[:, 4], np.array(truths, float).reshape(-1, 4), in_crowd)


def precision(*pictures: PictureBoxes) -> np.ndarray:
    found = average_precisions(pictures)
    assert found is not None
    return found


def test_all_objects_found() -> None:
    assert precision(picture([(*ONE, 0.9), (*OTHER, 0.3)], [OTHER, ONE])) == pytest.approx(1.0)


def test_one_of_two_objects_found() -> None:
    """The precision is 1 at the 51 recalls up to 0.5, and 0 beyond."""
    assert precision(picture([(*ONE, 0.9)], [ONE, OTHER])) == pytest.approx(51 / 101)


def test_a_wrong_box_with_a_higher_score_halves_the_precision() -> None:
    assert precision(picture([(*EMPTY, 0.9), (*ONE, 0.8)], [ONE])) == pytest.approx(0.5)


def test_a_wrong_box_with_the_lowest_score_costs_nothing() -> None:
    assert precision(picture([(*EMPTY, 0.1), (*ONE, 0.8)], [ONE])) == pytest.approx(1.0)


def test_scores_are_compared_across_pictures() -> None:
    pictures = picture([(*EMPTY, 0.9)], []), picture([(*ONE, 0.8)], [ONE])
    assert precision(*pictures) == pytest.approx(0.5)


def test_a_second_box_of_an_object_is_wrong() -> None:
    """Precisions are 1, 1/2 and 2/3: 1 at 51 recalls, 2/3 at the other 50."""
    found = [(*ONE, 0.9), (*ONE, 0.8), (*OTHER, 0.7)]
    expected = (51 + 50 * 2 / 3) / 101
    assert precision(picture(found, [ONE, OTHER])) == pytest.approx(expected)


def test_thresholds_of_the_overlap() -> None:
    """The overlap is 0.62, which the thresholds 0.50, 0.55 and 0.60 accept."""
    found = precision(picture([(0, 0, 10, 6.2, 0.9)], [ONE]))
    assert found == pytest.approx([1.0] * 3 + [0.0] * 7)
    assert found.mean() == pytest.approx(0.3)


def test_boxes_in_a_crowd_are_neither_right_nor_wrong() -> None:
    crowd = (0.0, 0.0, 100.0, 100.0)
    inside = [(*EMPTY, 0.9), (*EMPTY, 0.8)]  # both, because a crowd has any number of objects
    assert precision(picture([*inside, (*ONE, 0.7)], [crowd, ONE], crowds=(0,))) == pytest.approx(1)


def test_only_crowds_have_no_precision() -> None:
    assert average_precisions([picture([(*ONE, 0.9)], [ONE], crowds=(0,))]) is None
    assert average_precisions([picture([(*ONE, 0.9)], [])]) is None


def test_nothing_found() -> None:
    assert precision(picture([], [ONE])) == pytest.approx(0.0)


def test_only_the_best_hundred_boxes_of_a_picture_count() -> None:
    wrong = [(200.0 + n, 0.0, 1.0, 1.0, 0.9) for n in range(100)]
    assert precision(picture([*wrong, (*ONE, 0.1)], [ONE])) == pytest.approx(0.0)
    assert precision(picture([*wrong[1:], (*ONE, 0.1)], [ONE])) == pytest.approx(0.01)


def overlap(one: np.ndarray, other: np.ndarray, crowd: bool) -> float:
    wide = min(one[0] + one[2], other[0] + other[2]) - max(one[0], other[0])
    tall = min(one[1] + one[3], other[1] + other[3]) - max(one[1], other[1])
    both = max(wide, 0.0) * max(tall, 0.0)
    area = one[2] * one[3]
    return float(both / (area if crowd else area + other[2] * other[3] - both))


def plain_precision(pictures: list[PictureBoxes], threshold: float) -> float:
    """Return the average precision in plain loops, one box after the other."""
    rows: list[tuple[float, bool]] = []
    for one in pictures:
        used: set[int] = set()
        for place in sorted(range(len(one.scores)), key=lambda n: -one.scores[n]):
            box = one.detections[place]
            best, level = None, threshold
            for kind in (False, True):
                for number, truth in enumerate(one.truths):
                    if bool(one.crowds[number]) != kind or (number in used and not kind):
                        continue
                    share = overlap(box, truth, kind)
                    if share >= level:
                        best, level = number, share
                if best is not None:
                    break
            if best is None or not one.crowds[best]:
                rows.append((float(one.scores[place]), best is not None))
            if best is not None:
                used.add(best)
    total = sum(int((~one.crowds).sum()) for one in pictures)
    rows.sort(key=lambda row: -row[0])
    right, points = 0, []
    for count, (_, hit) in enumerate(rows, 1):
        right += hit
        points.append((right / total, right / count))
    recalls = np.linspace(0, 1, 101)
    return float(np.mean([max((p for r, p in points if r >= one), default=0) for one in recalls]))


def test_random_boxes_agree_with_plain_loops() -> None:
    random = np.random.default_rng(3)
    for _ in range(20):
        pictures = []
        for _ in range(int(random.integers(1, 6))):
            truths = random.uniform(5, 30, (int(random.integers(0, 5)), 4))
            found = [*(truths + random.normal(0, 2, truths.shape)), *random.uniform(5, 30, (3, 4))]
            rows = [
                (*box, float(score))
                for box, score in zip(found, random.random(len(found)), strict=True)
            ]
            crowds = tuple(np.flatnonzero(random.random(len(truths)) < 0.2))
            pictures.append(picture(rows, [tuple(one) for one in truths], crowds))
        found_here = average_precisions(pictures)
        if found_here is not None:
            expected = [plain_precision(pictures, one) for one in IOU_THRESHOLDS]
            assert found_here == pytest.approx(expected)
