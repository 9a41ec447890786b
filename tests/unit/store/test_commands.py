"""The commands prepare, inspect and cache, on a small model and a real device."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command_calls import ask, call
from docs.tiny_model import tiny_model

import fourfold
from fourfold.backends.opencl import OpenCLBackend
from fourfold.device import DeviceInfo
from fourfold.options import CompileOptions
from fourfold.store.draft import Draft
from fourfold.store.prepared import Prepared
from fourfold.tools.preparation import prepare_generic

IMAGE = np.ones((1, 32, 32, 3), np.float32)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.tflite"
    path.write_bytes(tiny_model())
    return path


def test_a_prepared_file_needs_no_model(model: Path, device: DeviceInfo, tmp_path: Path) -> None:
    out = tmp_path / "tiny.fourfold"
    with fourfold.Session(model, device, cache=None) as session:
        wanted = session.run(IMAGE)["scores"]
    report = ask("prepare", model, "-o", out, "--device", device.index)
    assert report["bytes"] == out.stat().st_size
    model.unlink()
    with fourfold.Session(out, device, cache=None) as session:
        assert session.origin == "file"
        assert np.array_equal(session.run(IMAGE)["scores"], wanted)
    inside = ask("inspect", out)
    assert [one["name"] for one in inside["models"]] == ["tiny"]
    assert {one["device"]["kind"] for one in inside["plans"]} == {"cpu", "gpu"}
    assert "tiny" in call("inspect", out).output


def sizes_of(prepared: Prepared) -> list[tuple[str, int]]:
    """Return the sizes of a file's sections, without its index and binaries."""
    sizes = [(name, prepared.file.section_size(n)) for n, name in enumerate(prepared.file.names)]
    return [row for row in sizes if row[0] not in ("index", "binary")]


def test_models_are_added_without_a_loss(model: Path, device: DeviceInfo, tmp_path: Path) -> None:
    out = tmp_path / "both.fourfold"
    other = tmp_path / "other.tflite"
    other.write_bytes(tiny_model())
    here = ("--device", device.index, "--only-here")
    ask("prepare", model, "-o", out, *here)
    before = Prepared.open(str(out))
    ask("prepare", other, "-o", out, "--add", *here)
    after = Prepared.open(str(out))
    assert after.models == ("tiny", "other")
    # Equal plans and weights are there once, and so is the binary: not all drivers make the same
    # one twice, but the later takes the place of the earlier.
    assert sorted(after.file.names) == sorted(before.file.names)
    assert sizes_of(after) == sizes_of(before)
    first, second = (
        [row["sections"] for row in after.index["plans"] if row["model"] == model]
        for model in (0, 1)
    )
    assert first == second
    with fourfold.Session(out, device, cache=None, model="other") as session:
        assert session.run(IMAGE)["scores"].shape == (1, 10)


def test_prepare_does_not_overwrite_other_files(model: Path) -> None:
    before = model.read_bytes()
    result = call("prepare", model, "-o", model)
    assert result.exit_code == 2
    assert model.read_bytes() == before


def test_inspect_takes_models_too(model: Path) -> None:
    found = ask("inspect", model)
    assert found["format"] == "TFLite"
    assert found["outputs"] == [{"name": "scores", "shape": [1, 10], "dtype": "f32"}]
    shown = call("inspect", model)
    assert "inputs and outputs" in shown.output
    (model.parent / "page.html").write_text("<html>")
    assert call("inspect", model.parent / "page.html").exit_code == 1


def test_the_commands_of_the_store(model: Path, device: DeviceInfo, tmp_path: Path) -> None:
    folder, at = tmp_path / "store", ("--device", device.index)
    cache = ("cache", "--folder", folder)
    assert ask(*cache, "why", model, *at)["hit"] is False
    for _ in range(2):
        with fourfold.Session(model, device, cache=folder) as session:
            session.run(IMAGE)
    assert ask(*cache, "why", model, *at)["hit"] is True
    listed = ask(*cache, "list")["entries"]
    assert [one["hits"] for one in listed if one["kind"] == "compiled"] == [1]
    assert ask(*cache, "info")["plans"] == 1
    answer = ask(*cache, "why", model, "--precision", "mixed", *at)
    assert [one["label"] for one in answer["differences"]] == ["precision"]
    assert ask(*cache, "verify")["damaged"] == []
    exported = tmp_path / "all.fourfold"
    assert ask(*cache, "export", exported)["entries"] == len(listed)
    assert ask(*cache, "prune", "--limit", "0")["bytes"] == 0
    assert ask(*cache, "import", exported)["entries"] == len(listed)
    for words in (("list",), ("info",), ("verify",), ("why", model, *at)):
        assert call(*cache, *words).exit_code == 0
    assert ask(*cache, "clear")["forgotten"] == len(listed)
    assert ask(*cache, "list")["entries"] == []


def test_without_a_store_there_is_nothing_to_look_after() -> None:
    result = call("cache", "list")
    assert result.exit_code == 2
    assert "there is no cache" in result.output


def kinds_of(out: Path) -> list[tuple[str, bool, int]]:
    """Return the kind of device of each plan in a file, whether it is generic, and its launches."""
    prepared = Prepared.open(str(out))
    rows = prepared.index["plans"]
    launches = [len(prepared.model(row).plan.launches) for row in rows]
    return [
        (row["made_for"]["kind"], row["generic"], count)
        for row, count in zip(rows, launches, strict=True)
    ]


def test_a_prepared_file_always_holds_generic_plans(
    model: Path, device: DeviceInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOURFOLD_LAUNCHES", "one")
    out, at = tmp_path / "tiny.fourfold", ("--device", device.index)
    report = ask("prepare", model, "-o", out, *at, "--only-here")
    assert [(one["device"], one["launches"]) for one in report["generic"]] == [
        (f"any {device.kind}", 2)
    ]
    special, generic = kinds_of(out)
    assert generic == (device.kind, True, 2)
    assert special[:2] == (device.kind, False)
    if device.is_cpu:
        assert special[2] == 1
    ask("prepare", model, "-o", out, *at)
    assert {row[:2] for row in kinds_of(out) if row[1]} == {("gpu", True), ("cpu", True)}
    assert "any gpu" in call("prepare", model, "-o", out, *at).output


def test_generic_plans_need_no_special_device(
    model: Path, device: DeviceInfo, tmp_path: Path
) -> None:
    out = tmp_path / "tiny.fourfold"
    ask("prepare", model, "-o", out, "--device", device.index)
    for one in ask("inspect", out)["plans"]:
        if one["generic"]:
            sizes = {"work_group", "local_memory", "buffer_bytes", "alignment"}
            assert set(one["requirements"]) <= {"language", "language_version", *sizes}
    shown = call("inspect", out).output
    assert "any cpu" in shown
    assert "any gpu" in shown
    assert "opencl 1.2; groups of" in shown


def test_an_absent_device_is_not_probed(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpenCLBackend, "probe", None)
    monkeypatch.setattr(OpenCLBackend, "begin_probe", None)
    made = prepare_generic(Draft(), model, CompileOptions("fp32"), ("cpu", "gpu"))
    assert [one["device"] for one in made] == ["any cpu", "any gpu"]


def test_a_generic_plan_uses_fp16_for_storage_only(
    model: Path, device: DeviceInfo, tmp_path: Path
) -> None:
    draft, options = Draft(), CompileOptions("fp16")
    made = prepare_generic(draft, model, options, ["gpu", "cpu", "other"])
    assert [(one["device"], one["precision"]) for one in made] == [
        ("any cpu", "mixed"),
        ("any gpu", "mixed"),
    ]
