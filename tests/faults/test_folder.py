"""Results are right with read-only, full, removed or broken cache folders, and clocks
that go back.
"""

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


def disk_full(*_: Any, **__: Any) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_full_disk_disables_caching_only(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.start()
    before = len(world.store.entries())
    world.model.write_bytes(b"\0\0\0\0TFL3 another model")
    with monkeypatch.context() as patch:
        patch.setattr(entries, "write_container", disk_full)
        assert [world.start(), world.start()] == ["model", "model"]
        assert len(world.said) == 1
        assert "No space left" in world.said[0]
    assert len(world.store.entries()) == before
    assert [world.start(), world.start()] == ["model", "store"]


def test_partial_write_is_removed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the file is written, and then removed."""
    from fourfold.plan import container

    def half(file: Any, sections: Sequence[Section]) -> int:
        file.write(b"half")
        return disk_full()

    world.start()
    kept = sorted(os.listdir(world.folder / "entries"))
    world.model.write_bytes(b"\0\0\0\0TFL3 another model")
    with monkeypatch.context() as patch:
        patch.setattr(container, "_write", half)
        assert world.start() == "model"
        assert len(world.said) == 1
    assert sorted(os.listdir(world.folder / "entries")) == kept


def test_full_database_disables_caching_only(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> list[str]:
        raise sqlite3.OperationalError("database or disk is full")

    world.start()
    world.model.write_bytes(b"\0\0\0\0TFL3 another model")
    with monkeypatch.context() as patch:
        patch.setattr(Store, "_insert", full)
        assert world.start() == "model"
        assert len(world.said) == 1
    assert len(world.files("compiled")) == 1  # the file of the unsaved entry was removed
    assert [world.start(), world.start()] == ["model", "store"]


@pytest.mark.skipif(os.name == "nt", reason="folders have other rights there")
def test_read_only_folder_is_still_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise sqlite3.OperationalError("attempt to write a readonly database")

    world.start()
    # file permissions do not stop a superuser, who may run this
    with monkeypatch.context() as patch:
        patch.setattr(Database, "writing", refuse)
        patch.setattr(entries, "write_container", disk_full)
        assert world.start() == "store"
        assert len(world.said) <= 1


def test_file_in_place_of_the_folder_disables_caching_only(world: World) -> None:
    world.folder.write_bytes(b"a file where the folder should be")
    assert [world.start(), world.start()] == ["model", "model"]
    assert len(world.said) == 1
    assert world.folder.read_bytes() == b"a file where the folder should be"


def test_folder_may_be_removed_while_a_session_is_open(world: World) -> None:
    from tiny_plan import X

    world.start()
    with fourfold.Session(world.model, world.device, cache=world.folder) as session:
        shutil.rmtree(world.folder)
        assert session.run(X)["the y"][1] == 3.0
    assert [world.start(), world.start()] == ["model", "store"]


def test_clock_may_go_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.start()
    now = world.store.entries()[0].used
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: now - 1e8)
        patch.setattr(time, "time_ns", lambda: int((now - 1e8) * 1e9))
        assert world.start() == "store"
        world.model.write_bytes(b"\0\0\0\0TFL3 another model")
        assert [world.start(), world.start()] == ["model", "store"]
        newest = world.store.entries()[0]
        assert newest.used >= now  # otherwise it would be evicted first


def test_garbage_in_place_of_the_database_is_replaced(world: World) -> None:
    world.start()
    (world.folder / NAME).write_bytes(b"garbage" * 1000)
    assert world.start() == "store"  # entry files contain their keys: nothing was lost
    assert len(world.said) == 1
    assert "damaged" in world.said[0]
    assert (world.folder / f"{NAME}.damaged").read_bytes() == b"garbage" * 1000


@pytest.mark.parametrize("place", [20, 100, 4096 + 4, 4096 * 3 + 8, -200])
def test_database_with_a_damaged_page_is_recovered(world: World, place: int) -> None:
    world.start()
    data = bytearray((world.folder / NAME).read_bytes())
    data[place : place + 64 or None] = os.urandom(len(data[place : place + 64 or None]))
    (world.folder / NAME).write_bytes(data)
    world.start()
    world.start()
    assert world.start() == "store"


def test_database_of_another_version_is_converted_without_a_warning(world: World) -> None:
    world.store.put_choice("device", "conv", "wide", 0.5)
    world.start()
    connection = sqlite3.connect(world.folder / NAME)
    connection.execute("PRAGMA user_version = 5")
    connection.close()
    world.start()
    assert world.said == []
    assert world.start() == "store"
    assert world.store.choices("device") == {"conv": "wide"}


def test_choices_survive_a_damaged_database(world: World) -> None:
    world.store.put_choice("device", "conv", "wide", 0.5)
    connection = sqlite3.connect(world.folder / NAME)
    connection.execute("DROP TABLE entries")
    connection.close()
    world.start()
    assert world.store.choices("device") == {"conv": "wide"}


def test_concurrent_writers_of_one_key(world: World) -> None:
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


def test_concurrent_creation_keeps_the_existing_database(world: World) -> None:
    world.start()
    Database(world.folder)._create()
    assert world.said == []
    assert world.start() == "store"


def test_stale_journal_is_not_replayed(world: World) -> None:
    """A process leaves one if it dies while it creates the cache, or if its cache was removed."""
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


def test_leftovers_of_killed_writers_are_removed(world: World) -> None:
    world.start()
    left = world.folder / "entries" / ".plan-x.half"
    left.write_bytes(b"half")
    os.utime(left, (0, 0))
    world.store.prune(2**40)
    assert not left.exists()
    assert world.start() == "store"


def test_folder_is_private(world: World, tmp_path: Path) -> None:
    world.start()
    if os.name == "nt":
        return
    for folder, _, files in os.walk(world.folder):
        assert Path(folder).stat().st_mode & 0o077 == 0
        for name in files:
            assert (Path(folder) / name).stat().st_mode & 0o077 == 0
