"""The cache returns its entries, evicts the oldest first, and explains misses."""

from __future__ import annotations

import os
import sqlite3
import struct
import time
from contextlib import closing
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from tiny_plan import line

from fourfold.backends.null import NULL_GPU
from fourfold.errors import ModelError
from fourfold.plan import Section
from fourfold.plan.container import VERSION
from fourfold.store import database, models
from fourfold.store.keys import compiled_parts, device_key, engine_parts, key_of, program_parts
from fourfold.store.store import Store, memory_store
from fourfold.store.transfer import export_store, import_store
from fourfold.store.why import explain


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return Store(tmp_path / "store" if request.param == "folder" else None)


def parts(model: str = "m", precision: str = "fp32") -> dict[str, str]:
    return compiled_parts({"model": model}, {}, NULL_GPU, {"precision": precision})


def test_stores_and_finds_models(store: Store) -> None:
    assert store.find_model(parts()) is None
    store.put_model("m.tflite", parts(), line(3.0))
    result = store.find_model(parts())
    assert result is not None
    assert np.array_equal(result.plan.constants, line(3.0).plan.constants)
    assert store.find_model(parts("other")) is None
    (entry,) = store.entries()
    assert (entry.kind, entry.title, entry.hits) == ("compiled", "m.tflite", 1)
    assert entry.parts == parts()


def test_stores_and_finds_binaries(store: Store) -> None:
    key = program_parts(line().plan.program, NULL_GPU)
    store.put_binary("m", key, b"\x7fELF")
    assert store.find_binary(key) == b"\x7fELF"
    assert store.find_binary({**key, "driver": "2"}) is None


def test_model_is_not_found_as_a_binary(store: Store) -> None:
    store.put_model("m", parts(), line())
    assert store.find_binary(parts()) is None


def test_evicts_the_least_recently_used_entry_first(tmp_path: Path) -> None:
    store = Store(tmp_path, limit=30_000)
    for name in "abc":
        store.put("binary", name, parts(name), [Section("binary", bytes(7000))])
    assert store.find_binary(parts("a")) is not None
    store.put("binary", "d", parts("d"), [Section("binary", bytes(7000))])
    titles = [entry.title for entry in store.entries()]
    assert titles[0] == "d"
    assert "a" in titles
    assert "b" not in titles
    assert sum(entry.size for entry in store.entries()) <= 30_000
    assert len(os.listdir(tmp_path / "entries")) == len(titles)


def test_prune_and_clear_remove_entries(store: Store) -> None:
    for name in "abc":
        store.put_model(name, parts(name), line())
    assert store.prune(0) == 3
    store.put_model("d", parts("d"), line())
    store.put_choice("gpu", "conv", "wide", 0.1)
    store.clear()
    assert store.entries() == []
    assert store.choices("gpu") == {}


def test_verify_removes_damaged_entries(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put_model("good", parts("good"), line())
    store.put_model("bad", parts("bad"), line())
    bad = next(entry for entry in store.entries() if entry.title == "bad")
    path = tmp_path / "entries" / bad.file
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert [
        (entry.title, "bytes" in why or "checksum" in why) for entry, why in store.verify()
    ] == [("bad", True)]
    assert [entry.title for entry in store.entries()] == ["good"]


def test_entries_of_another_format_are_created_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put_model("m", parts(), line())
    (entry,) = store.entries()
    path = tmp_path / "entries" / entry.file
    content = bytearray(path.read_bytes())
    struct.pack_into("<I", content, 8, VERSION - 1)
    struct.pack_into("<I", content, 60, crc32(content[:60]))
    path.write_bytes(content)
    assert store.find_model(parts()) is None
    store.put_model("m", parts(), line())
    assert store.find_model(parts()) is not None


def test_choices_are_stored_by_device_and_operation(store: Store) -> None:
    key = device_key(NULL_GPU)
    store.put_choice(key, "conv2d f32[1,8]", '{"tile": 4}', 0.25)
    store.put_choice(key, "conv2d f32[1,8]", '{"tile": 8}', 0.125)
    store.put_choice("another", "conv2d f32[1,8]", "x", 1.0)
    assert store.choices(key) == {"conv2d f32[1,8]": '{"tile": 8}'}
    assert len(store.choice_rows()) == 2


def test_choices_are_stored_with_their_effort(tmp_path: Path, store: Store) -> None:
    store.put_choice("gpu", "conv", "wide", 0.5, effort=8)
    store.put_choice("gpu", "mean", "tall", 0.5)
    export_store(store, tmp_path / "all.fourfold")
    other = Store(tmp_path / "other")
    import_store(other, tmp_path / "all.fourfold")
    for one in (store, other):
        assert one.efforts("gpu") == {"conv": 8, "mean": 0}


def test_migrates_a_database_of_the_previous_format(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put_model("m", parts(), line())
    store.put_choice("gpu", "conv", "wide", 0.5, effort=8)
    store.quarantine_binary(b"binary", "the driver refused it")
    with closing(sqlite3.connect(tmp_path / database.NAME)) as connection:
        connection.execute("ALTER TABLE entries RENAME COLUMN made TO created")
        connection.execute("PRAGMA user_version = 1")
        connection.commit()
    again = Store(tmp_path)
    assert again.choices("gpu") == {}  # migrates the database
    assert again.choices("gpu") == {"conv": "wide"}
    assert again.efforts("gpu") == {"conv": 8}
    assert [why for _, why, _ in again.quarantined()] == ["the driver refused it"]
    assert again.find_model(parts()) is not None


def test_exported_cache_can_be_imported(tmp_path: Path, store: Store) -> None:
    store.put_model("m", parts(), line())
    store.put_binary("m", program_parts(line().plan.program, NULL_GPU), b"\x7fELF")
    store.put_choice("gpu", "conv", "wide", 0.5)
    file = tmp_path / "all.fourfold"
    assert export_store(store, file)[:2] == (2, 1)
    other = Store(tmp_path / "other")
    assert import_store(other, file) == (2, 1)
    assert other.find_model(parts()) is not None
    assert other.find_binary(program_parts(line().plan.program, NULL_GPU)) == b"\x7fELF"
    assert other.choices("gpu") == {"conv": "wide"}


def test_explain_names_the_differences(store: Store) -> None:
    store.put_model("m.tflite", parts(), line())
    assert explain(parts(), store.entries(), "m.tflite").hit
    explanation = explain(parts(precision="mixed"), store.entries(), "m.tflite")
    assert [(one.label, one.wanted, one.kept) for one in explanation.differences] == [
        ("precision", "mixed", "fp32")
    ]
    explanation = explain(parts("changed"), store.entries(), "m.tflite")
    assert [one.meaning for one in explanation.differences] == ["the model file has other content"]
    assert explain(parts("changed"), store.entries(), "n.tflite").entry is None


def test_explain_compares_with_the_most_similar_entry(store: Store) -> None:
    store.put_model("m", {**parts(), "driver": "0.9", "precision": "fp16"}, line())
    store.put_model("m", {**parts(), "driver": "0.9"}, line())
    explanation = explain(parts(), store.entries(), "m")
    assert [one.label for one in explanation.differences] == ["driver"]


def test_keys_distinguish_labels_and_values() -> None:
    assert key_of({"a": "b", "c": "d"}) == key_of({"c": "d", "a": "b"})
    assert key_of({"a": "b"}) != key_of({"b": "a"})
    assert key_of({"a": "b:1:c"}) != key_of({"a": "b", "1": "c"})
    assert set(engine_parts("digest")) == {"format", "engine", "sources"}


def test_caches_model_digests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "store")
    model = tmp_path / "m"
    model.write_bytes(b"\0\0\0\0TFL3 abc")
    os.utime(model, (1, 1))  # long ago
    first = store.model_digest(model)
    monkeypatch.setattr(store, "_fresh_digest", lambda *arguments: "read again")
    assert store.model_digest(model) == first
    model.write_bytes(b"\0\0\0\0TFL3 abd")
    assert store.model_digest(model) == "read again"


def test_digest_of_a_recently_written_file_is_not_cached(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    model = tmp_path / "m"
    model.write_bytes(b"\0\0\0\0TFL3 abc")
    stamp = time.time_ns()
    os.utime(model, ns=(stamp, stamp))
    first = store.model_digest(model)
    model.write_bytes(b"\0\0\0\0TFL3 abd")
    os.utime(model, ns=(stamp, stamp))  # same size and time, different content
    assert store.model_digest(model) != first


def test_rejects_other_files_without_reading_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = tmp_path / "large.bin"
    with large.open("wb") as file:
        file.truncate(3 << 30)  # a sparse file: no disk space, but slow to read
    monkeypatch.setattr(models, "digest_file", lambda path: pytest.fail(f"{path} was read"))
    with pytest.raises(ModelError, match="not a model that can be read"):
        Store(tmp_path / "store").model_digest(large)


def test_digest_covers_all_files_of_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "store")
    model, weights = tmp_path / "net.prototxt", tmp_path / "net.caffemodel"
    for path in (model, weights):
        path.write_bytes(b"abc")
        os.utime(path, (1, 1))
    first = store.model_digest(model)
    assert store.model_digest(tmp_path) == store.model_digest(weights) == first
    with monkeypatch.context() as patched:
        patched.setattr(store, "_fresh_digest", lambda *arguments: "read again")
        assert store.model_digest(model) == first
        weights.write_bytes(b"abd")
        assert store.model_digest(model) == "read again"
        weights.unlink()
        assert store.model_digest(model) == "read again"
    assert store.model_digest(model) != first


def test_memory_cache_is_shared_in_the_process(tmp_path: Path) -> None:
    assert memory_store() is memory_store()
    memory_store().put_model("m", parts("in memory"), line())
    assert memory_store().find_model(parts("in memory")) is not None
    assert os.listdir(tmp_path) == []
