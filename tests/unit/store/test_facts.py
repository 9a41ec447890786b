"""Probed facts in the store: kept by device and driver, checked, exported, salvaged, forgotten."""

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


def change(folder: Path, command: str, *values: object) -> None:
    with closing(sqlite3.connect(folder / database.NAME)) as connection, connection:
        connection.execute(command, values)


def test_facts_come_back_for_the_device_and_its_driver(store: Store) -> None:
    assert store.find_facts(NULL_GPU) == StoredFacts({}, {})
    store.put_facts(NULL_GPU, FACTS)
    assert store.find_facts(NULL_GPU).facts == FACTS
    assert store.find_facts(replace(NULL_GPU, index=3, memory=7, claims={"a": 1})).facts == FACTS
    for other in ({"api": "cuda"}, {"driver": "2"}, {"name": "b"}, {"compute_units": 2}):
        assert store.find_facts(replace(NULL_GPU, **other)).facts == {}  # type: ignore[arg-type]


def test_trials_without_an_answer_are_counted(store: Store) -> None:
    for count in (1, 2, 3):
        store.put_facts(NULL_GPU, {}, ["resident"])
        assert store.find_facts(NULL_GPU) == StoredFacts({}, {"resident": count})
    store.put_facts(NULL_GPU, {"resident": False})
    assert store.find_facts(NULL_GPU) == StoredFacts({"resident": False}, {})
    store.put_facts(NULL_GPU, {}, ["resident"])  # what is known stays known
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
def test_a_row_that_was_changed_is_not_believed(command: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put_facts(NULL_GPU, {"matrix_units": True})
    change(tmp_path, command)
    assert store.find_facts(NULL_GPU) == StoredFacts({}, {})


@pytest.mark.parametrize("facts", [{"matrix_units": 1}, {"subgroups": True}, {"name": "x"}])
def test_what_cannot_be_a_fact_is_not_one(facts: dict[str, Fact], store: Store) -> None:
    store.put_facts(NULL_GPU, facts)
    assert store.find_facts(NULL_GPU).facts == {}


def test_they_go_with_an_exported_store(store: Store, tmp_path: Path) -> None:
    store.put_facts(NULL_GPU, FACTS, ["resident"])
    export_store(store, tmp_path / "all.fourfold")
    other = Store(tmp_path / "other")
    import_store(other, tmp_path / "all.fourfold")
    assert other.find_facts(NULL_GPU) == StoredFacts(FACTS, {})  # no answer is nothing to hand on


def test_they_survive_a_damaged_database(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put_facts(NULL_GPU, FACTS)
    change(tmp_path, "DROP TABLE digests")
    model = tmp_path / "model.tflite"
    model.write_bytes(b"\0\0\0\0TFL3")
    assert store.model_digest(model)  # the call that finds out
    assert Store(tmp_path).find_facts(NULL_GPU).facts == FACTS


def test_clear_forgets_them(store: Store) -> None:
    store.put_facts(NULL_GPU, FACTS)
    store.clear()
    assert store.find_facts(NULL_GPU) == StoredFacts({}, {})


def test_a_folder_that_cannot_be_written_costs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file where a folder should be")
    store = Store(tmp_path / "store")
    store.put_facts(NULL_GPU, FACTS)
    assert store.find_facts(NULL_GPU) == StoredFacts({}, {})
