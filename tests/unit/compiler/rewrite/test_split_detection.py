"""split_detection: boxes are decoded in parallel, and only the selection is sequential."""

from __future__ import annotations

import numpy as np
import pytest
from random_graphs import build

from fourfold.backends import make_player
from fourfold.backends.cpu.reference import evaluate
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower import make_plan
from fourfold.compiler.rewrite.split_detection import split_detection
from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.ops import suppress_boxes

WAYS = ("classes_per_box=1", "classes_per_box=3", "by_class=True")


def detection(words: str, boxes: int = 211) -> Graph:
    limits = "most=13, classes=5, score=0.4, overlap=0.3, scales=(10., 10., 5., 5.)"
    return build(
        f"""
        input b: f32[1,{boxes},4]
        input s: f32[1,{boxes},6]
        input a: f32[{boxes},4]
        y = detection(b, s, a; {limits}, {words})
        output y
        """
    )


def inputs(seed: int, boxes: int = 211) -> dict[str, np.ndarray]:
    """Return boxes of all sizes; scores come in steps, so that many are equal."""
    random = np.random.default_rng(seed)
    anchors = random.uniform(0.05, 0.9, (boxes, 4))
    return {
        "b": random.normal(0, 3, (1, boxes, 4)).astype(np.float32),
        "s": (random.integers(0, 17, (1, boxes, 6)) / 16).astype(np.float32),
        "a": anchors.astype(np.float32),
    }


@pytest.mark.parametrize("words", WAYS)
def test_result_is_the_same(words: str) -> None:
    graph = detection(words)
    after = split_detection(graph)
    ops = [node.op for node in after.nodes]
    whole = "by_class" in words
    assert ops == (["detection"] if whole else ["decode_boxes", "suppress_boxes"])
    assert split_detection(after) is after
    for seed in range(5):
        arguments = inputs(seed)
        expected = evaluate(graph, arguments)["y"]
        assert 1 < expected[:, 6].sum() < len(expected) or expected[:, 6].all()
        np.testing.assert_allclose(evaluate(after, arguments)["y"], expected, atol=1e-6)


@pytest.mark.parametrize("items", [1, 16])
def test_group_selects_like_one_work_item(
    items: int, device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suppress_boxes, "split_for", lambda site, length: items)
    graph = split_detection(detection("classes_per_box=2"))
    player = make_player(device, make_plan(graph, device, KernelOptions(form="list")))
    for seed in range(5):
        arguments = inputs(seed)
        player.poison()
        (result,) = player.run(list(arguments.values()))
        np.testing.assert_allclose(result, evaluate(graph, arguments)["y"], atol=1e-5)
    player.close()
