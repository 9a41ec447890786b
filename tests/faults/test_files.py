"""Prepared files on listed and other devices, after a driver change, and damaged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from faults.setting import World
from tiny_plan import line

from fourfold.backends import make_player
from fourfold.device import DeviceInfo
from fourfold.errors import ModelError
from fourfold.store.draft import Draft
from fourfold.store.keys import program_parts


def prepare(path: Path, made_for: DeviceInfo, binary_for: DeviceInfo, binary: bytes) -> Path:
    draft = Draft()
    draft.add_compiled(draft.add_model("m", "digest", 1), made_for, line(), {})
    draft.add_binary(program_parts(line().plan.program, binary_for), binary)
    draft.write(path)
    return path


def real_binary(device: DeviceInfo) -> bytes:
    player = make_player(device, line().plan)
    binary = player.binary()
    player.close()
    return binary


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.fourfold"


def test_listed_device_logs_nothing(world: World, path: Path) -> None:
    prepare(path, world.device, world.device, real_binary(world.device))
    assert [world.start(path), world.start(path.read_bytes())] == ["file", "file"]
    assert (world.made, world.said) == (0, [])


def test_unlisted_device_builds_from_text_with_a_warning(world: World, path: Path) -> None:
    other = replace(world.device, name="another")
    prepare(path, other, other, b"not for this device")
    assert world.start(path) == "file"
    assert len(world.said) == 1
    assert "was not prepared for" in world.said[0]


def test_new_driver_builds_from_text_with_a_warning(world: World, path: Path) -> None:
    other = replace(world.device, driver="older")
    prepare(path, world.device, other, b"not for this driver")
    assert world.start(path) == "file"
    assert len(world.said) == 1
    assert "no binary for driver" in world.said[0]
    assert world.start(path) == "file"  # the cache contains the binary of the first start
    assert world.said == []


def test_rejects_damaged_files(world: World, path: Path) -> None:
    prepare(path, world.device, world.device, b"binary")
    content = path.read_bytes()
    for place in (8, 70, 200, len(content) // 2):
        damaged = bytearray(content)
        damaged[place] ^= 4
        path.write_bytes(damaged)
        with pytest.raises(ModelError):
            world.start(path)
    path.write_bytes(content[:-1])
    with pytest.raises(ModelError, match="bytes instead of"):
        world.start(path)
