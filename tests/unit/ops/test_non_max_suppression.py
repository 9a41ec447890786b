"""A group of work-items selects the same boxes as one work-item and the reference, ties
included.
"""

from __future__ import annotations

import numpy as np
import pytest

from fourfold.backends import make_player
from fourfold.backends.cpu.reference import evaluate
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.device import DeviceInfo
from fourfold.graph import Graph, Node
from fourfold.ops import non_max_suppression as op
from fourfold.types import DType, TensorType

BATCH, BOXES = 2, 61


def suppression(attributes: op.NonMaxSuppression) -> Graph:
    types = {
        "boxes": TensorType(DType.F32, (BATCH, BOXES, 4)),
        "scores": TensorType(DType.F32, (BATCH, BOXES, 1)),
        "classes": TensorType(DType.I32, (BATCH, BOXES, 1)),
    }
    outputs, inputs = ("indices", "counts", "owners"), tuple(types)
    types |= dict(zip(outputs, op.infer(attributes, *types.values()), strict=True))
    return Graph(
        (Node("non_max_suppression", inputs, outputs, attributes),), inputs, outputs, types
    )


def detections(seed: int) -> dict[str, np.ndarray]:
    """Return boxes that overlap much, with few different scores."""
    random = np.random.default_rng(seed)
    corner = random.uniform(0, 0.7, (BATCH, BOXES, 2))
    boxes = np.concatenate([corner, corner + random.uniform(0.1, 0.3, corner.shape)], 2)
    scores = random.integers(0, 9, (BATCH, BOXES, 1)) / 8
    classes = random.integers(0, 3, (BATCH, BOXES, 1))
    return {
        "boxes": boxes.astype(np.float32),
        "scores": scores.astype(np.float32),
        "classes": classes.astype(np.int32),
    }


@pytest.mark.parametrize("most", [4, 100])
@pytest.mark.parametrize("items", [1, 16])
def test_a_group_selects_like_one_work_item(
    items: int, most: int, device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(op, "split_for", lambda context, length: items)
    graph = suppression(op.NonMaxSuppression(most, 0.25, 0.3))
    player = make_player(device, make_plan(graph, device, KernelOptions(form="list")))
    for seed in range(5):
        given = detections(seed)
        wanted = evaluate(graph, given)
        assert (wanted["counts"] > 3).all()
        player.poison()
        for name, found in zip(graph.outputs, player.run(list(given.values())), strict=True):
            np.testing.assert_array_equal(found, wanted[name])
    player.close()


def test_kept_boxes_do_not_overlap() -> None:
    """Kept boxes do not overlap, and each removed one overlaps a better box."""
    given = detections(7)
    indices, counts, owners = op.reference(op.NonMaxSuppression(100, 0.25, 0.3), *given.values())
    for batch in range(BATCH):
        boxes, scores, kinds = (array[batch] for array in given.values())
        kept = indices[batch, : counts[batch, 0], 0]
        assert (np.diff(scores[kept, 0]) <= 0).all()
        for place in range(BOXES):
            over = op.overlap_of(boxes[place], boxes[kept]) > 0.3
            rivals = kept[over & (kinds[kept, 0] == kinds[place, 0]) & (kept != place)]
            if place in kept:
                assert not rivals.size
                assert kept[owners[batch, place, 0]] == place
            elif scores[place, 0] >= 0.25:
                assert (scores[rivals, 0] >= scores[place, 0]).any()
                assert kept[owners[batch, place, 0]] in rivals
            else:
                assert owners[batch, place, 0] == op.NO_BOX
