"""Folders that are read-only, full, gone or broken, clocks that go back: right results."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from faults.setting import World
from tiny_plan import line

import fourfold
from fourfold.plan import Section
from fourfold.store import entries
from fourfold.store.database import NAME, Database
from fourfold.store.store import Store


def no_room(*_: Any, **__: Any) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_costs_speed_only(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.start()
    before = len(world.store.entries())
    world.model.write_bytes(b"\0\0\0\0TFL3 another model")
    with monkeypatch.context() as patch:
        patch.setattr(entries, "write_container", no_room)
        assert [world.start(), world.start()] == ["model", "model"]
        assert len(world.said) == 1
        assert "No space left" in world.said[0]
    assert len(world.store.entries()) == before
    assert [world.start(), world.start()] == ["model", "store"]


def test_a_disk_that_fills_in_the_middle_of_a_write(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the file is written; nothing of it stays."""
    from fourfold.plan import container

    def half(file: Any, sections: Sequence[Section]) -> int:
        file.write(b"half")
        return no_room()

    world.start()
    kept = sorted(os.listdir(world.folder / "entries"))
    world.model.write_bytes(b"\0\0\0\0TFL3 another model")
    with monkeypatch.context() as patch:
        patch.setattr(container, "_write", half)
        assert world.start() == "model"
        assert len(world.said) == 1
    assert sorted(os.listdir(world.folder / "entries")) == kept


def test_a_database_that_cannot_grow(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> list[str]:
        raise sqlite3.OperationalError("database or disk is full")

    world.start()
    world.model.write_bytes(b"\0\0\0\0TFL3 another model")
    with monkeypatch.context() as patch:
        patch.setattr(Store, "_insert", full)
        assert world.start() == "model"
        assert len(world.said) == 1
    assert len(world.files("compiled")) == 1  # the file of the entry that was not kept is gone
    assert [world.start(), world.start()] == ["model", "store"]


@pytest.mark.skipif(os.name == "nt", reason="folders have other rights there")
def test_a_read_only_folder_still_gives_hits(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise sqlite3.OperationalError("attempt to write a readonly database")

    world.start()
    with monkeypatch.context() as patch:  # rights do not stop a superuser, who may run this
        patch.setattr(Database, "writing", refuse)
        patch.setattr(entries, "write_container", no_room)
        assert world.start() == "store"
        assert len(world.said) <= 1


def test_a_folder_that_cannot_be_made(world: World) -> None:
    world.folder.write_bytes(b"a file where the folder should be")
    assert [world.start(), world.start()] == ["model", "model"]
    assert len(world.said) == 1
    assert world.folder.read_bytes() == b"a file where the folder should be"


def test_the_folder_is_removed_while_a_session_is_open(world: World) -> None:
    from tiny_plan import X

    world.start()
    with fourfold.Session(world.model, world.device, cache=world.folder) as session:
        shutil.rmtree(world.folder)
        assert session.run(X)["the y"][1] == 3.0
    assert [world.start(), world.start()] == ["model", "store"]


def test_a_clock_that_goes_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.start()
    now = world.store.entries()[0].used
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: now - 1e8)
        patch.setattr(time, "time_ns", lambda: int((now - 1e8) * 1e9))
        assert world.start() == "store"
        world.model.write_bytes(b"\0\0\0\0TFL3 another model")
        assert [world.start(), world.start()] == ["model", "store"]
        newest = world.store.entries()[0]
        assert newest.used >= now  # it must not be the first to go


def test_garbage_in_place_of_the_database(world: World) -> None:
    world.start()
    (world.folder / NAME).write_bytes(b"garbage" * 1000)
    assert world.start() == "store"  # the files say what they are good for: nothing was lost
    assert len(world.said) == 1
    assert "damaged" in world.said[0]
    assert (world.folder / f"{NAME}.damaged").read_bytes() == b"garbage" * 1000


@pytest.mark.parametrize("place", [20, 100, 4096 + 4, 4096 * 3 + 8, -200])
def test_a_damaged_page_of_the_database(world: World, place: int) -> None:
    world.start()
    data = bytearray((world.folder / NAME).read_bytes())
    data[place : place + 64 or None] = os.urandom(len(data[place : place + 64 or None]))
    (world.folder / NAME).write_bytes(data)
    world.start()
    world.start()
    assert world.start() == "store"


def test_choices_survive_a_damaged_database(world: World) -> None:
    world.store.put_choice("device", "conv", "wide", 0.5)
    connection = sqlite3.connect(world.folder / NAME)
    connection.execute("DROP TABLE entries")
    connection.close()
    world.start()
    assert world.store.choices("device") == {"conv": "wide"}


def test_two_writers_of_the_same_key(world: World) -> None:
    parts = {"model": "m"}
    stores = [Store(world.folder) for _ in range(8)]
    threads = [
        Thread(target=lambda one=store: [one.put_model("m", parts, line()) for _ in range(5)])
        for store in stores
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert world.said == []
    assert len(world.store.entries()) == 1
    assert world.store.find_model(parts) is not None
    assert len(world.files("compiled")) == 1


def test_who_comes_late_to_make_the_store_leaves_it_alone(world: World) -> None:
    world.start()
    Database(world.folder)._create()
    assert world.said == []
    assert world.start() == "store"


def test_a_journal_beside_an_empty_store_is_not_played(world: World) -> None:
    """As a process leaves them that dies while it makes the store, or whose store was removed."""
    world.start()
    connection = sqlite3.connect(world.folder / NAME, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("DELETE FROM entries")
    journal = world.folder / f"{NAME}-journal"
    left = journal.read_bytes()
    connection.execute("ROLLBACK")
    connection.close()
    (world.folder / NAME).write_bytes(b"")
    journal.write_bytes(left)
    assert [world.start(), world.start()] == ["model", "store"]
    assert world.said == []


def test_rubbish_of_killed_writers_is_swept(world: World) -> None:
    world.start()
    left = world.folder / "entries" / ".plan-x.half"
    left.write_bytes(b"half")
    os.utime(left, (0, 0))
    world.store.prune(2**40)
    assert not left.exists()
    assert world.start() == "store"


def test_the_folder_is_private(world: World, tmp_path: Path) -> None:
    world.start()
    if os.name == "nt":
        return
    for folder, _, files in os.walk(world.folder):
        assert Path(folder).stat().st_mode & 0o077 == 0
        for name in files:
            assert (Path(folder) / name).stat().st_mode & 0o077 == 0
