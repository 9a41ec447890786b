"""Register tiles: every candidate can run and round-trips as text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_devices import LARGE, target_of

from fourfold.backends import find_target
from fourfold.backends.null import NULL_GPU
from fourfold.device import DeviceInfo
from fourfold.ops.kernels.conv.tile import (
    MAX_GROUP_DEPTH,
    ConvTile,
    Work,
    candidate_tiles,
    choose_tile,
    tile_fits,
)

WORKS = [Work(1, 250, 512), Work(12544, 8, 8), Work(49, 256, 4608), Work(1, 1, 1), Work(197, 5, 3)]


@pytest.mark.parametrize("work", WORKS, ids=str)
@pytest.mark.parametrize("info", [NULL_GPU, LARGE, replace(LARGE, kind="cpu")], ids=str)
def test_every_candidate_fits_and_round_trips_as_text(info: DeviceInfo, work: Work) -> None:
    target = target_of(info)
    found = candidate_tiles(target, work)
    assert found
    for tile in found:
        assert tile.split <= MAX_GROUP_DEPTH
        assert tile_fits(target, work, tile)
        assert ConvTile.parse(str(tile)) == tile


def test_weights_by_image_are_part_of_the_text() -> None:
    tile = replace(candidate_tiles(target_of(LARGE), WORKS[0])[0], image=True)
    assert str(tile).endswith(" by image")
    assert ConvTile.parse(str(tile)) == tile
    assert choose_tile(target_of(LARGE), WORKS[0], str(tile)) == tile
    assert ConvTile.parse(f"{tile} by") is None


def test_ignores_choices_that_do_not_fit() -> None:
    work = Work(1, 250, 512)
    deep = ConvTile(1, 1, 4, 2 * MAX_GROUP_DEPTH)
    assert not tile_fits(target_of(LARGE), work, deep)
    assert choose_tile(target_of(LARGE), work, str(deep)) != deep


@pytest.mark.parametrize("work", WORKS, ids=str)
@pytest.mark.parametrize("local", [0, 32768])
def test_emulated_gpus_have_no_waiting_or_idle_work_items(work: Work, local: int) -> None:
    """Idle work-items cost time there: on a GPU, two of the classifier's 64 would work."""
    software = replace(find_target("webgpu:software", 2), local_memory=local)
    tile = choose_tile(target_of(software), work, None)
    across, down = work.tiles(tile)
    wide, tall = tile.local
    made = -(-across // wide) * wide * -(-down // tall) * tall * tile.pixels * tile.groups
    assert tile.split == 1
    assert made <= max(1.75 * work.pixels * work.slices, 16)


def test_emulated_gpus_get_large_tiles_for_large_work() -> None:
    target = target_of(find_target("webgpu:software", 2))
    small, large = (choose_tile(target, Work(64, 4, steps), None) for steps in (1, 4096))
    assert small.pixels * small.groups < large.pixels * large.groups
