"""Only files and folders of the user are used as a cache: others run without one."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from faults.setting import World

from fourfold.store.database import NAME

pytestmark = pytest.mark.skipif(os.name == "nt", reason="files have other rights there")


def start_without_cache(world: World) -> str:
    """Start twice without the cache, and return the only warning."""
    before = sorted(os.walk(world.folder))
    assert [world.start(), world.start()] == ["model", "model"]
    assert sorted(os.walk(world.folder)) == before
    (line,) = world.said
    assert line.endswith("continuing without it")
    return line


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777, 0o702])
def test_folder_that_others_can_write_to_is_not_used(
    world: World, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fourfold.store.folder._is_own_group", lambda group: False)
    world.start()
    world.folder.chmod(mode)
    line = start_without_cache(world)
    assert f"other users can write to '{world.folder}' (mode {mode:04o})" in line
    assert f"run chmod go-w '{world.folder}'" in line
    world.folder.chmod(0o700)
    assert world.start() == "store"


def test_folder_that_the_users_own_group_can_write_to_is_used(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fourfold.store.folder._is_own_group", lambda group: True)
    world.start()
    world.folder.chmod(0o770)
    assert world.start() == "store"
    assert world.said == []


def test_folder_of_another_user_is_not_used(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.start()
    if os.geteuid() == 0:
        os.chown(world.folder, 1234, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    line = start_without_cache(world)
    assert f"'{world.folder}' belongs to user" in line
    assert "set FOURFOLD_CACHE" in line


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root owns files of root"
)
def test_folder_that_root_prepared_is_used(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.start()
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    assert world.start() == "store"
    assert world.said == []


def test_superuser_creates_no_cache_in_the_home_of_another_user(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = world.folder / "home"
    home.mkdir(parents=True)
    world.folder = home / ".cache" / "fourfold"
    own = os.stat

    def of_another_user(path: str | Path, **options: bool) -> os.stat_result:
        state = own(path, **options)
        return os.stat_result((*state[:4], 1234, *state[5:])) if Path(path) == home else state

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "stat", of_another_user)
    assert "use sudo -H" in start_without_cache(world)
    assert not (home / ".cache").exists()


def test_dangling_link_creates_no_file(world: World, tmp_path: Path) -> None:
    world.folder.mkdir(mode=0o700)
    (world.folder / NAME).symlink_to(tmp_path / "target")
    assert [world.start(), world.start()] == ["model", "store"]
    assert not (tmp_path / "target").exists()
    assert not (world.folder / NAME).is_symlink()


@pytest.mark.parametrize("suffix", ["-journal", "-wal", "-shm"])
def test_links_in_place_of_side_files_create_no_file(
    world: World, tmp_path: Path, suffix: str
) -> None:
    world.start()
    (world.folder / f"{NAME}{suffix}").symlink_to(tmp_path / "target")
    world.start()
    assert world.start() == "store"
    assert not (tmp_path / "target").exists()


def link_to_the_file(path: Path) -> None:
    copy = path.with_name("copy")
    path.rename(copy)
    path.symlink_to(copy)


def let_others_write(path: Path) -> None:
    path.chmod(0o602)


@pytest.mark.parametrize("change", [link_to_the_file, let_others_write])
def test_shared_or_linked_entries_are_created_again(
    world: World, change: Callable[[Path], None]
) -> None:
    world.start()
    (path,) = world.files("compiled")
    change(path)
    assert world.start() == "model"
    assert "a cached compiled is created again" in world.said[0]
    assert world.start() == "store"


@pytest.mark.parametrize("change", [link_to_the_file, let_others_write])
def test_shared_or_linked_database_is_replaced(
    world: World, change: Callable[[Path], None]
) -> None:
    world.store.put_choice("device", "conv", "wide", 0.5)
    world.start()
    change(world.folder / NAME)
    world.start()
    assert "not a file of this user" in world.said[0]
    assert world.start() == "store"
    assert world.store.choices("device") == {}  # another user may have written it
    assert stat.S_IMODE((world.folder / NAME).lstat().st_mode) == 0o600


def test_linked_folder_of_the_user_is_used(world: World, tmp_path: Path) -> None:
    (tmp_path / "large disk").mkdir(mode=0o700)
    world.folder.symlink_to(tmp_path / "large disk")
    assert [world.start(), world.start()] == ["model", "store"]
    assert world.said == []


def test_model_with_a_name_that_is_not_unicode_is_cached(world: World, tmp_path: Path) -> None:
    try:
        world.model = world.model.rename(tmp_path / "model\udcff.bin")
    except OSError:
        pytest.skip("the file system only has names in Unicode")
    assert [world.start(), world.start(), world.start()] == ["model", "store", "store"]
    assert world.said == []


@pytest.mark.parametrize(
    "change", ["UPDATE digests SET seen='x'", "UPDATE entries SET used='abc', size=x'00'"]
)
def test_rows_with_values_of_other_types_are_replaced(world: World, change: str) -> None:
    from fuzz.database_damage import run_sql

    world.start()
    run_sql(world.folder / NAME, change)
    world.start()
    assert world.start() == "store"
