"""Damaged, swapped and incompatible cache entries are rebuilt with one log line, and never fail."""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import pytest
from faults.setting import World
from tiny_plan import line

from fourfold.plan.container import HEADER
from fourfold.store.database import NAME
from fourfold.store.keys import program_parts

Damage = Callable[[bytearray], None]


def truncate(data: bytearray) -> None:
    del data[len(data) // 2 :]


def empty(data: bytearray) -> None:
    data.clear()


def drop_last_byte(data: bytearray) -> None:
    del data[-1:]


def append_bytes(data: bytearray) -> None:
    data.extend(b"more")


def flip_at_fraction(place: float) -> Damage:
    def flip(data: bytearray) -> None:
        data[int(place * (len(data) - 1))] ^= 0x10

    return flip


def flip_at(place: int) -> Damage:
    def flip(data: bytearray) -> None:
        data[place] ^= 0x01

    return flip


def set_future_version(data: bytearray) -> None:
    struct.pack_into("<I", data, 8, 99)
    struct.pack_into("<I", data, HEADER.size - 4, crc32(data[: HEADER.size - 4]))


DAMAGES = {
    "truncated": truncate,
    "emptied": empty,
    "short of one byte": drop_last_byte,
    "longer": append_bytes,
    "flipped magic": flip_at(0),
    "flipped version": flip_at(8),
    "flipped file size": flip_at(16),
    "flipped table offset": flip_at(24),
    "flipped table crc": flip_at(36),
    "flipped header crc": flip_at(60),
    "flipped section name": flip_at(HEADER.size),
    "flipped section offset": flip_at(HEADER.size + 16),
    "flipped section size": flip_at(HEADER.size + 24),
    "flipped section crc": flip_at(HEADER.size + 32),
    "flipped last byte": flip_at_fraction(1.0),
    "of the future": set_future_version,
}


def damage_file(path: Path, how: Damage) -> None:
    data = bytearray(path.read_bytes())
    how(data)
    path.write_bytes(data)


def test_second_start_uses_cached_entries(world: World) -> None:
    assert [world.start(), world.start(), world.start()] == ["model", "store", "store"]
    assert world.made == 1
    assert world.said == []
    assert {entry.kind: entry.hits for entry in world.store.entries()} == {
        "compiled": 2,
        "binary": 2,
    }


@pytest.mark.parametrize("kind", ["compiled", "binary"])
@pytest.mark.parametrize("name", list(DAMAGES))
def test_damaged_entry_is_rebuilt(world: World, kind: str, name: str) -> None:
    world.start()
    (path,) = world.files(kind)
    damage_file(path, DAMAGES[name])
    assert world.start() == ("model" if kind == "compiled" else "store")
    assert len(world.said) == 1
    assert f"a cached {kind} is created again" in world.said[0]
    assert world.start() == "store"
    assert world.said == []


def test_detects_swapped_entries(world: World, tmp_path: Path) -> None:
    world.start()
    world.model.write_bytes(b"\0\0\0\0TFL3 another model")
    world.start()
    one, two = world.files("compiled")
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    assert world.start() == "model"
    assert "swapped" in world.said[0]


def test_removed_file_is_a_cache_miss(world: World) -> None:
    world.start()
    for path in (*world.files("compiled"), *world.files("binary")):
        path.unlink()
    assert world.start() == "model"
    assert world.start() == "store"


@pytest.mark.parametrize("fact", ["driver", "name", "platform", "version"])
def test_entries_of_another_device_are_not_used(world: World, fact: str) -> None:
    mine = program_parts(line().plan.program, world.device)
    other = replace(world.device, **{fact: "another"})
    foreign = program_parts(line().plan.program, other)
    world.start()
    store = world.store
    binary = store.find_binary(mine)
    store.clear()
    store.put_binary("model.bin", foreign, binary or b"")
    assert world.start() == "model"
    assert store.find_binary(mine) is not None


def test_modified_row_is_ignored(world: World) -> None:
    world.start()
    connection = sqlite3.connect(world.folder / NAME)
    with connection:
        connection.execute("UPDATE entries SET file='../../../etc/passwd' WHERE kind='compiled'")
    connection.close()
    assert world.start() == "model"
    assert len(world.said) == 1


def test_modified_key_does_not_match_an_entry(world: World) -> None:
    world.start()
    connection = sqlite3.connect(world.folder / NAME)
    with connection:
        text = json.dumps({"model": "lies"})
        connection.execute("UPDATE entries SET parts=?", (text,))
    connection.close()
    assert world.store.entries() == []
    assert world.start() == "store"  # the file itself contains its key


def test_changed_tuning_choice_rebuilds_the_plan(world: World) -> None:
    world.start()
    world.store.put_choice(_key(world), "line", "wide", 0.1)
    assert [world.start(), world.start()] == ["model", "store"]
    world.store.put_choice(_key(world), "something else", "wide", 0.1)
    assert world.start() == "store"


def _key(world: World) -> str:
    from fourfold.store.keys import device_key

    return device_key(world.device)


def test_changed_model_file_is_compiled_again(world: World) -> None:
    world.start()
    world.model.write_bytes(b"\0\0\0\0TFL3 b model")  # same size, within the same clock tick
    assert world.start() == "model"
