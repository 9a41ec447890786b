"""Commands and players refuse a cache folder that other users can write to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from fourfold.cli import main
from fourfold.store.folder import private_folder
from fourfold.store.store import Store

pytestmark = pytest.mark.skipif(os.name == "nt", reason="files have other rights there")


@pytest.fixture
def shared_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def test_commands_refuse_a_shared_folder(shared_folder: Path) -> None:
    result = CliRunner().invoke(main, ["cache", "--folder", str(shared_folder), "info"])
    assert result.exit_code != 0
    assert "other users can write to" in result.output
    assert "chmod go-w" in result.output


def test_players_are_not_cached_in_a_shared_folder(
    shared_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert private_folder(str(shared_folder)) is None
    assert "other users can write to" in caplog.text
    own = shared_folder.parent / "own"
    assert private_folder(str(own)) == str(own)
    assert own.stat().st_mode & 0o777 == 0o700
    assert private_folder(None) is None


def test_impossible_folder_disables_caching_only() -> None:
    store = Store(Path("a\0b"))
    for _ in range(3):
        store.put_choice("gpu", "conv", "wide", 0.5)
        assert store.choices("gpu") == {}


def test_names_that_are_not_unicode_are_not_cached(tmp_path: Path) -> None:
    model = tmp_path / "model\udcff.tflite"
    try:
        model.write_bytes(b"\0\0\0\0TFL3 a model")
    except OSError:
        pytest.skip("the file system only has names in Unicode")
    store = Store(tmp_path / "cache")
    for _ in range(3):
        store.model_digest(model)
    assert not (tmp_path / "cache" / "store.sqlite.damaged").exists()
