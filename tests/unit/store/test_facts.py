"""Probed device facts are cached per device and driver, checked, exported, recovered and
cleared.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from fourfold.backends.null import NULL_GPU
from fourfold.device import Fact
from fourfold.store import database
from fourfold.store.facts import StoredFacts
from fourfold.store.store import Store
from fourfold.store.transfer import export_store, import_store

FACTS: dict[str, Fact] = {"matrix_units": True, "subgroups": "khr", "image_texels": 65536}


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return Store(tmp_path / "store" if request.param == "folder" else None)


def edit_database(folder: Path, command: str, *values: object) -> None:
    with closing(sqlite3.connect(folder / database.NAME)) as connection, connection:
        connection.execute(command, values)


def test_facts_are_found_by_device_and_driver(store: Store) -> None:
    assert store.find_facts(NULL_GPU) == StoredFacts({}, {})
    store.put_facts(NULL_GPU, FACTS)
    assert store.find_facts(NULL_GPU).facts == FACTS
    assert store.find_facts(replace(NULL_GPU, index=3, memory=7, claims={"a": 1})).facts == FACTS
    for other in ({"api": "cuda"}, {"driver": "2"}, {"name": "b"}, {"compute_units": 2}):
        assert store.find_facts(replace(NULL_GPU, **other)).facts == {}  # type: ignore[arg-type]


def test_counts_inconclusive_probes(store: Store) -> None:
    for count in (1, 2, 3):
        store.put_facts(NULL_GPU, {}, ["resident"])
        assert store.find_facts(NULL_GPU) == StoredFacts({}, {"resident": count})
    store.put_facts(NULL_GPU, {"resident": False})
    assert store.find_facts(NULL_GPU) == StoredFacts({"resident": False}, {})
    store.put_facts(NULL_GPU, {}, ["resident"])  # known facts stay
    assert store.find_facts(NULL_GPU) == StoredFacts({"resident": False}, {})


@pytest.mark.parametrize(
    "command",
    [
        "UPDATE facts SET value='false'",
        "UPDATE facts SET name='resident'",
        "UPDATE facts SET checksum=7",
        "UPDATE facts SET value=NULL",
    ],
)
def test_ignores_modified_rows(command: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put_facts(NULL_GPU, {"matrix_units": True})
    edit_database(tmp_path, command)
    assert store.find_facts(NULL_GPU) == StoredFacts({}, {})


@pytest.mark.parametrize("facts", [{"matrix_units": 1}, {"subgroups": True}, {"name": "x"}])
def test_ignores_invalid_facts(facts: dict[str, Fact], store: Store) -> None:
    store.put_facts(NULL_GPU, facts)
    assert store.find_facts(NULL_GPU).facts == {}


def test_facts_are_exported_and_imported(store: Store, tmp_path: Path) -> None:
    store.put_facts(NULL_GPU, FACTS, ["resident"])
    export_store(store, tmp_path / "all.fourfold")
    other = Store(tmp_path / "other")
    import_store(other, tmp_path / "all.fourfold")
    # inconclusive probes are not exported
    assert other.find_facts(NULL_GPU) == StoredFacts(FACTS, {})


def test_facts_survive_a_damaged_database(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put_facts(NULL_GPU, FACTS)
    edit_database(tmp_path, "DROP TABLE digests")
    model = tmp_path / "model.tflite"
    model.write_bytes(b"\0\0\0\0TFL3")
    assert store.model_digest(model)  # detects the damage
    assert Store(tmp_path).find_facts(NULL_GPU).facts == FACTS


def test_clear_removes_facts(store: Store) -> None:
    store.put_facts(NULL_GPU, FACTS)
    store.clear()
    assert store.find_facts(NULL_GPU) == StoredFacts({}, {})


def test_unwritable_folder_disables_caching_only(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file where a folder should be")
    store = Store(tmp_path / "store")
    store.put_facts(NULL_GPU, FACTS)
    assert store.find_facts(NULL_GPU) == StoredFacts({}, {})
