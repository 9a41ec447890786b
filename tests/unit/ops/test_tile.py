"""Register tiles: those that come up can be run, and kept as text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_devices import LARGE, target_of

from fourfold.device import DeviceInfo
from fourfold.kernels.conv.tile import DEEPEST, ConvTile, Work, candidates, choose_tile, tile_fits
from fourfold.players import find_target
from fourfold.players.null import NULL_GPU

WORKS = [Work(1, 250, 512), Work(12544, 8, 8), Work(49, 256, 4608), Work(1, 1, 1), Work(197, 5, 3)]


@pytest.mark.parametrize("work", WORKS, ids=str)
@pytest.mark.parametrize("info", [NULL_GPU, LARGE, replace(LARGE, kind="cpu")], ids=str)
def test_every_candidate_can_be_run_and_kept_as_text(info: DeviceInfo, work: Work) -> None:
    target = target_of(info)
    found = candidates(target, work)
    assert found
    for tile in found:
        assert tile.split <= DEEPEST
        assert tile_fits(target, work, tile)
        assert ConvTile.parse(str(tile)) == tile


def test_weights_by_image_are_part_of_the_text() -> None:
    tile = replace(candidates(target_of(LARGE), WORKS[0])[0], image=True)
    assert str(tile).endswith(" by image")
    assert ConvTile.parse(str(tile)) == tile
    assert choose_tile(target_of(LARGE), WORKS[0], str(tile)) == tile
    assert ConvTile.parse(f"{tile} by") is None


def test_a_choice_that_no_device_can_run_is_not_taken() -> None:
    work = Work(1, 250, 512)
    deep = ConvTile(1, 1, 4, 2 * DEEPEST)
    assert not tile_fits(target_of(LARGE), work, deep)
    assert choose_tile(target_of(LARGE), work, str(deep)) != deep


@pytest.mark.parametrize(
    ("board", "taps", "pixels"), [("any", 9, 8), ("software", 1, 8), ("software", 9, 2)]
)
def test_software_gets_no_tile_that_it_builds_slowly(board: str, taps: int, pixels: int) -> None:
    target = target_of(find_target(f"webgpu:{board}", 2))
    assert choose_tile(target, Work(12544, 8, 8 * taps, taps), None).pixels == pixels
