"""Options of postprocessing: rejected values, their text form, and generated anchors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fourfold import processing
from fourfold.errors import InputError
from fourfold.processing.anchors import cell_anchors
from fourfold.processing.boxes import FAMILIES
from fourfold.processing.option import (
    NAMES,
    checked_postprocess,
    parse_postprocess,
    postprocess_text,
)

EXAMPLES = (
    processing.TopK(3, softmax=True),
    processing.ArgMax(1),
    processing.Softmax(),
    processing.YoloBoxes(0.4, most=10, size=(480, 640), objectness=False),
    processing.YoloHeads(anchors=((10, 13, 16, 30), (30, 61, 62, 45)), form="square"),
    processing.SsdBoxes(anchors=processing.SsdAnchors(maps=((19, 19), (10, 10)), reduced=False)),
    processing.SsdBoxes(anchors=((0.5, 0.5, 0.25, 1.0),), by_class=True, scores="probs"),
    processing.MediaPipeBoxes(family="pose", blend=False),
    processing.DecodedBoxes(order="xywh", normalized=False),
)


def test_every_kind_has_an_example() -> None:
    assert {type(one) for one in EXAMPLES} == set(NAMES.values())
    public = {getattr(processing, name) for name in processing.__all__}
    assert public - {processing.SsdAnchors} == set(NAMES.values())


@pytest.mark.parametrize("option", EXAMPLES, ids=repr)
def test_text_and_back(option: object) -> None:
    text = postprocess_text(option)  # type: ignore[arg-type]
    assert parse_postprocess((text,)) == option


def test_text_is_short_where_all_is_as_usual() -> None:
    assert postprocess_text(processing.YoloBoxes()) == "yolo"
    assert postprocess_text(processing.YoloBoxes(score=0.4)) == "yolo:score=0.4"
    assert postprocess_text(None) == ""


def test_options_by_output() -> None:
    options = {"a=b:0": processing.ArgMax(), "probs": processing.TopK(3)}
    assert parse_postprocess(("probs=topk:count=3", "a=b:0=argmax")) == options
    assert postprocess_text(options) == "a=b:0=argmax; probs=topk:count=3"
    assert parse_postprocess(()) is None
    with pytest.raises(InputError, match="2 post-processing options"):
        parse_postprocess(("topk", "mask=argmax"))


def test_long_anchors_are_written_as_a_digest() -> None:
    rows = np.random.default_rng(0).uniform(0, 1, (100, 4))
    texts = {postprocess_text(processing.SsdBoxes(anchors=rows + step)) for step in (0, 0, 1)}
    assert len(texts) == 2
    assert max(map(len, texts)) < 60


def test_anchors_from_a_file(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).uniform(0, 1, (7, 4)).astype(np.float32)
    np.save(tmp_path / "anchors.npy", rows)
    found = parse_postprocess((f"ssd:anchors={tmp_path / 'anchors.npy'}",))
    assert found == processing.SsdBoxes(anchors=rows)
    with pytest.raises(InputError, match="cannot be read"):
        parse_postprocess((f"ssd:anchors={tmp_path / 'absent.npy'}",))


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("yollo", "did you mean 'yolo'?"),
        ("yolo:scores=1", "did you mean 'score' or 'strides'?"),
        ('ssd:anchors={"map":[]}', "did you mean 'maps'?"),
    ],
)
def test_unknown_names_get_the_nearest(text: str, fix: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_postprocess((text,))
    assert caught.value.fix == fix


@pytest.mark.parametrize(
    "make",
    [
        lambda: processing.TopK(0),
        lambda: processing.TopK(2.5),
        lambda: processing.TopK(True),
        lambda: processing.YoloBoxes(score=float("nan")),
        lambda: processing.YoloBoxes(overlap=1.5),
        lambda: processing.YoloBoxes(most=0),
        lambda: processing.YoloBoxes(classes=0),
        lambda: processing.YoloBoxes(size=(640,)),
        processing.YoloHeads,
        lambda: processing.YoloHeads(anchors=((1, 2, 3),)),
        lambda: processing.YoloHeads(anchors=((1, 2), (1, 2, 3, 4))),
        lambda: processing.YoloHeads(anchors=((1, 2),), form="cubic"),
        lambda: processing.SsdBoxes(anchors=np.zeros((3, 5))),
        lambda: processing.SsdBoxes(scales=(1, 1, 0, 1)),
        lambda: processing.SsdAnchors(ratios=()),
        lambda: processing.SsdAnchors(min_scale=2),
        lambda: processing.MediaPipeBoxes(family="foot"),
        lambda: processing.DecodedBoxes(order="lbrt"),
    ],
)
def test_invalid_options_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert caught.value.what
    assert caught.value.why
    assert caught.value.fix


def test_only_options_are_taken() -> None:
    with pytest.raises(InputError, match="postprocess of 'x' is 5"):
        checked_postprocess({"x": 5})
    with pytest.raises(InputError, match="postprocess is 'topk'"):
        checked_postprocess("topk")
    assert checked_postprocess({}) is None


def test_anchors_of_ssd_mobilenet() -> None:
    rows = processing.SsdAnchors().rows((300, 300))
    assert rows.shape == (1917, 4)
    np.testing.assert_allclose(rows[0], (0.5 / 19, 0.5 / 19, 0.1, 0.1), rtol=1e-6)
    np.testing.assert_allclose(rows[-1], (0.5, 0.5, 0.95**0.5, 0.95**0.5), rtol=1e-6)


@pytest.mark.parametrize(
    ("family", "size", "count"),
    [
        ("face", 128, 896),
        ("face_back", 256, 896),
        ("face_full_range", 192, 2304),
        ("hand", 192, 2016),
        ("pose", 224, 2254),
    ],
)
def test_anchors_of_the_families(family: str, size: int, count: int) -> None:
    rows = cell_anchors((size, size), *FAMILIES[family])
    assert rows.shape == (count, 4)
    assert (rows[:, 2:] == 1).all()
    assert len(np.unique(rows[:, :2], axis=0)) < count or family == "face_full_range"
