"""Tuning finds and stores only kernels with correct results; interruptions lose nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fake_devices import target_of
from random_graphs import build

from fourfold.backends import determine_facts, make_player
from fourfold.backends.null import NULL_GPU
from fourfold.codegen.context import KernelOptions, NodeContext
from fourfold.compiler.lower import make_plan
from fourfold.compiler.lower.kernels import KernelChoice, variants_of
from fourfold.compiler.tune import LEVELS, Clock, Level, Listener, find_level, tune
from fourfold.compiler.tune.race import Race, Result
from fourfold.compiler.tune.search import Known, Search, _most_similar, searches
from fourfold.device import IMAGES, DeviceInfo
from fourfold.errors import InputError
from fourfold.graph import Graph
from fourfold.ops import conv2d
from fourfold.ops.base import Variant, registry
from fourfold.ops.kernels.conv.tile import ConvTile, Work, candidate_tiles, choose_tile, tile_fits


@pytest.fixture
def graph() -> Graph:
    return build(
        """
        input x: f32[1,13,11,8]
        const w: f32[16,1,1,8]
        a = relu(x)
        b = conv2d(a, w)
        c = conv2d(a, w; stride=(2,2))
        output b, c
        """
    )


def result_of(graph: Graph, device: DeviceInfo, choices: dict[str, str]) -> list[np.ndarray]:
    player = make_player(device, make_plan(graph, device, KernelOptions(), choices))
    x = np.random.default_rng(0).uniform(-1, 1, (1, 13, 11, 8)).astype(np.float32)
    results = player.run([x])
    player.close()
    return results


def test_choices_are_found_and_change_nothing_but_speed(graph: Graph, device: DeviceInfo) -> None:
    found = tune(graph, device, KernelOptions(form="list"), find_level("rapid", 60))
    tuned = [key for key in found if key.startswith("conv2d")]
    assert len(tuned) == 2
    plain, chosen = result_of(graph, device, {}), result_of(graph, device, found)
    for one, other in zip(plain, chosen, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_a_wrong_candidate_is_never_chosen(
    graph: Graph, device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(context: NodeContext) -> None:
        kernel = context.kernel("conv2d_wrong")
        target = context.write(kernel)
        pixel, slice_ = kernel.ids(1, 1)
        target.store(pixel, slice_, context.read(kernel, 0).load(pixel, slice_))

    bad = Variant("wrong", wrong, choices=lambda context: ["at once"])
    op = replace(conv2d.OP, variants=(*conv2d.OP.variants, bad))
    monkeypatch.setitem(registry(), "conv2d", op)  # type: ignore[arg-type]
    found = tune(graph, device, KernelOptions(form="list"), find_level("exhaustive", 90))
    assert found
    assert not any(way.startswith("wrong") for way in found.values())


def test_known_keys_are_left_alone(graph: Graph, device: DeviceInfo) -> None:
    keys = [search.key for search in searches(graph, device, KernelOptions(), Known({}, {}), 3)]
    known = dict.fromkeys(keys, "tiled: default")
    assert tune(graph, device, KernelOptions(form="list"), find_level("rapid"), known) == known


def test_a_form_that_was_raced_is_not_raced_again(
    graph: Graph, device: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    level = find_level("rapid", 60)
    first = tune(graph, device, KernelOptions(), level)
    assert {"one", "list"}.intersection(first.values())
    efforts = dict.fromkeys(first, level.candidates)
    monkeypatch.setattr(
        "fourfold.compiler.tune.form.make_player", lambda *_: pytest.fail("it was raced")
    )
    assert tune(graph, device, KernelOptions(), level, first, efforts) == first


def test_past_deadline_finds_nothing(graph: Graph, device: DeviceInfo) -> None:
    assert tune(graph, device, KernelOptions(form="list"), find_level("rapid", 0)) == {}


def test_results_before_an_interruption_are_stored(graph: Graph, device: DeviceInfo) -> None:
    kept: dict[str, str] = {}

    class Interrupting(Listener):
        def found(self, key: str, result: Result) -> None:
            kept[key] = result.choice
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(
            graph, device, KernelOptions(form="list"), find_level("rapid"), listener=Interrupting()
        )
    assert len(kept) == 1


def test_rejects_unknown_level(graph: Graph) -> None:
    with pytest.raises(InputError, match="tuning level"):
        find_level("rapdi")


@pytest.mark.parametrize("work", [Work(1, 250, 256), Work(49, 256, 256), Work(12544, 8, 27)])
@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_every_candidate_fits_and_reads_back(kind: str, work: Work) -> None:
    target = target_of(replace(NULL_GPU, kind=kind))
    tiles = candidate_tiles(target, work)
    assert tiles
    for tile in tiles:
        assert tile_fits(target, work, tile)
        assert ConvTile.parse(str(tile)) == tile


@pytest.mark.parametrize(
    "choice", ["", "nonsense", "9x9x8 split 3 in 1x1", "1x1x4 split 999 in 1x1"]
)
def test_a_bad_choice_falls_back_to_a_good_tile(choice: str) -> None:
    work = Work(49, 256, 256)
    target = target_of(NULL_GPU)
    assert choose_tile(target, work, choice) == choose_tile(target, work, None)


def ways_of(graph: Graph, info: DeviceInfo, options: KernelOptions, limit: int) -> list[str]:
    found = searches(graph, info, options, Known({}, {}), limit)
    return [
        str(way) for way in next(one for one in found if one.key.startswith("conv2d")).candidates
    ]


def test_weights_by_image_are_tried_where_there_are_images(graph: Graph) -> None:
    many, options = LEVELS["exhaustive"].candidates, KernelOptions()
    able = replace(NULL_GPU, image_texels=65536)
    first = ways_of(graph, able, options, 8)
    assert first[2] == f"{first[1]} by image"
    every = ways_of(graph, able, options, many)
    plain = [way for way in every if way.startswith("tiled") and not way.endswith("image")]
    assert {f"{way} by image" for way in plain[1:]} < set(every)
    eager = ways_of(graph, replace(able, prefers_images=True), options, 8)
    assert (eager[1], eager[2]) == (first[2], first[1])


@pytest.mark.parametrize(
    "facts",
    [{"image_texels": 0}, {"kind": "cpu"}, {"resident": True, "matrix_units": True}],
    ids=str,
)
def test_weights_by_image_are_not_tried_elsewhere(graph: Graph, facts: dict[str, Any]) -> None:
    info = replace(NULL_GPU, **{"image_texels": 65536, **facts})
    ways = ways_of(graph, info, KernelOptions(), LEVELS["exhaustive"].candidates)
    assert not [way for way in ways if way.endswith("image")]


def test_weights_by_image_are_raced(graph: Graph, device: DeviceInfo) -> None:
    able = determine_facts(device, IMAGES)
    if not able.image_texels:
        pytest.skip(f"{device.name} has no images of buffers")
    options, tiled = (
        KernelOptions(form="list"),
        next(v for v in variants_of(conv2d.OP) if v.name == "tiled"),
    )
    key = next(one.key for one in searches(graph, able, options, Known({}, {}), 1))
    tiles = [ConvTile(3, 1, 8), ConvTile(3, 1, 8, image=True)]
    search = Search(key, "both", tuple(KernelChoice(tiled, str(tile)) for tile in tiles))
    race = Race(graph, able, options, [search])
    result = race.run(search, 2)
    race.close()
    assert result is not None
    assert result.tried == 2


def test_most_similar_known_computation_comes_first() -> None:
    known = {"conv f32[1,14,14,8]": "near", "conv f32[1,112,112,8]": "far", "other f32[1]": "no"}
    assert _most_similar("conv f32[1,15,15,8]", known) == "near"
    assert _most_similar("pool f32[1,15,15,8]", known) is None


class Noting(Listener):
    """Records the results, and how many candidates were tried for each."""

    def __init__(self) -> None:
        self.tried: dict[str, int] = {}
        self.left: list[float] = []

    def found(self, key: str, result: Result) -> None:
        self.tried[key] = result.tried

    def progress(self, done: int, total: int, title: str, left: float) -> None:
        self.left.append(left)


def test_higher_level_continues_after_a_lower_one(graph: Graph, device: DeviceInfo) -> None:
    options, few, many = KernelOptions(form="list"), Level(2, 2, 60.0), Level(5, 2, 60.0)
    first = Noting()
    found = tune(graph, device, options, few, listener=first)
    efforts = dict.fromkeys(found, few.candidates)
    again, more = Noting(), Noting()
    assert tune(graph, device, options, few, found, efforts, again) == found
    assert again.tried == {}
    tune(graph, device, options, many, found, efforts, more)
    assert more.tried.keys() == first.tried.keys()
    # The default, the previous best, and three new candidates.
    assert all(count <= 5 for count in more.tried.values())
    assert more.left[-1] == 0.0
    assert all(0.0 <= left <= 60.0 for left in more.left)


def test_time_left_follows_pace_within_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fourfold.compiler.tune.time.monotonic", lambda: 110.0)
    assert Clock(100.0, 130.0, 8).left(0) == 20.0
    assert Clock(100.0, 200.0, 8).left(4) == 10.0
    assert Clock(100.0, 115.0, 8).left(4) == 5.0
    assert Clock(100.0, 105.0, 8).left(4) == 0.0


def test_levels_increase_effort() -> None:
    efforts = [level.candidates for level in LEVELS.values()]
    assert efforts == sorted(efforts)
