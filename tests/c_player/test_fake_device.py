"""Checks transfers, facts, failures and cached binaries on the fake driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_player.fake_device import (
    EVERYTHING,
    everything,
    fake_device,
    flagged,
    play_files,
    prepare_fake,
    run_fake,
    run_fake_json,
    stepped,
)
from tiny_plan import X, line

from fourfold.device import Fact
from fourfold.plan import Container
from fourfold.store.entry import read_binary, read_head
from fourfold.store.keys import key_of, program_parts

GPU: dict[str, str] = {}
UNIFIED = {"FAKE_UNIFIED": "1"}
CPU = {"FAKE_KIND": "cpu", "FAKE_UNIFIED": "1"}
MAPPED: dict[str, Fact] = {"persistent_mapping": True, "self_test": ""}
POINTERS: dict[str, Fact] = {**MAPPED, "host_pointers": True}
WAITING: dict[str, Fact] = {"resident": True, "reaches_host": True, "self_test": ""}


def play(path: Path, folder: Path, *more: str, **environment: str) -> tuple[Any, np.ndarray]:
    """Run the only model of a file on X."""
    np.save(folder / "x.npy", X)
    where = ("--input", folder / "x.npy", "--output", folder / "out")
    (report,) = run_fake_json(path, *where, *more, **environment)
    return report, np.load(folder / "out" / "0.0.npy")


@pytest.mark.parametrize(
    ("compiled", "settings", "facts"),
    [
        (line(), UNIFIED, {}),
        (line(), GPU, {}),
        (line(), GPU, {"self_test": ""}),
        (line(), GPU, {"self_test": "staging"}),
        (line(), CPU, {}),
        (line(), CPU, MAPPED),
        (line(), CPU, POINTERS),
        (stepped(), CPU, POINTERS),
        (flagged(), GPU, WAITING),
        (flagged(), {"FAKE_LATE": "1"}, WAITING),
    ],
    ids=[
        *("plain", "discrete", "staged", "unstaged", "cpu", "mapped", "pointers", "zero-copy"),
        *("flags", "late"),
    ],
)
def test_transfer_paths(
    compiled: Any, settings: dict[str, str], facts: dict[str, Fact], tmp_path: Path
) -> None:
    path = prepare_fake(
        tmp_path / "f.fourfold", fake_device(facts, **settings), {"line": [compiled]}
    )
    report, y = play(path, tmp_path, "--bench", "--profile", "--seconds", "0", **settings)
    assert np.array_equal(y, 2 * X + 1)
    assert report["profile"]["launches"][0]["seconds"] == report["profile"]["span"] == 2e-6
    assert report["bench"]["runs"] >= 3
    assert report["outputs"][0]["quantization"] == [[0.5], [3], None]


def test_supports_all_buffers_arguments_and_ports(tmp_path: Path) -> None:
    for texels in (65536, 200):
        device = fake_device({**EVERYTHING, "image_texels": texels})
        path = prepare_fake(tmp_path / "f.fourfold", device, {"all": [everything()]})
        (report,) = run_fake_json(path, "--profile", FAKE_TEXELS=str(texels))
        assert [one["type"] for one in report["inputs"]] == ["i8[1,48]", "u8[1,5,5,3]"]
        assert [one["pixels"] for one in report["inputs"]] == ["", "rgb from 0 to 1"]
        assert [one["bytes"] for one in report["outputs"]] == [64, 128, 0]
        assert report["outputs"][0]["quantization"] == [[0.5, 0.25], [1, 2], 0]
        assert [one["node"] for one in report["profile"]["launches"]][1] == 'b = "second"(a)'
        assert report["device_bytes"] == everything().plan.device_bytes


@pytest.mark.parametrize("fact", sorted(set(EVERYTHING) - {"image_windows", "self_test"}))
def test_unknown_facts_count_as_absent(fact: str, tmp_path: Path) -> None:
    facts = {name: value for name, value in EVERYTHING.items() if name != fact}
    path = prepare_fake(tmp_path / "f.fourfold", fake_device(facts), {"all": [everything()]})
    (report,) = run_fake_json(path, status=1)
    needed = "images" if fact == "image_texels" else fact
    assert report["status"] == "plan"
    assert f"lacks '{needed}'" in report["error"]


@pytest.mark.parametrize("settings", [GPU, CPU], ids=["gpu", "cpu"])
def test_handles_failures_of_every_driver_call(settings: dict[str, str], tmp_path: Path) -> None:
    facts = {**EVERYTHING, **POINTERS, **WAITING}
    plans = {"all": [everything()], "line": [stepped()], "flags": [flagged()]}
    path = prepare_fake(tmp_path / "f.fourfold", fake_device(facts, **settings), plans)
    lines = play_files([path], "400", **settings)
    fine = [one.split()[2] == "3" for one in lines]
    last = max(number for number, good in enumerate(fine) if not good)
    assert 100 < last < 350  # later numbers exceed the number of calls
    assert fine.count(False) > 80  # some failures are tolerated
    statuses = {one.split()[4] for one, good in zip(lines, fine, strict=True) if not good}
    assert statuses <= {"opencl:", "memory:", "plan:", "device:", "build:"}


@pytest.mark.parametrize("shared", ["folder", "file"])
def test_does_not_load_binaries_that_others_can_write(tmp_path: Path, shared: str) -> None:
    path = prepare_fake(tmp_path / "f.fourfold", fake_device(), {"line": [line()]})
    cache = tmp_path / "cache"
    play(path, tmp_path, "--cache", str(cache))
    (entry,) = cache.iterdir()
    changed = cache if shared == "folder" else entry
    changed.chmod(changed.stat().st_mode | 0o002)
    assert play(path, tmp_path, "--cache", str(cache))[0]["program"] == "text"


def test_caches_binaries(tmp_path: Path) -> None:
    device = fake_device()
    path, cache = (
        prepare_fake(tmp_path / "f.fourfold", device, {"line": [line()]}),
        tmp_path / "cache",
    )
    origins = [play(path, tmp_path, "--cache", str(cache))[0]["program"] for _ in range(2)]
    assert origins == ["text", "cache"]
    (entry,) = cache.iterdir()
    parts = program_parts(line().plan.program, device)
    file = Container.open(entry)
    assert entry.name == f"{key_of(parts)}.fourfold"
    assert read_head(file) == ("binary", "line", parts)
    assert read_binary(file) == b"FAKE" + line().plan.program.text.encode()
    assert entry.stat().st_mode & 0o777 == 0o600
    assert cache.stat().st_mode & 0o777 == 0o700


def test_rebuilds_damaged_and_crashing_binaries(tmp_path: Path) -> None:
    path, cache = (
        prepare_fake(tmp_path / "f.fourfold", fake_device(), {"line": [line()]}),
        tmp_path / "c",
    )
    options = ("--cache", str(cache))
    play(path, tmp_path, *options)
    (entry,) = cache.iterdir()
    data = bytearray(entry.read_bytes())
    data[-1] ^= 1
    entry.write_bytes(data)
    assert play(path, tmp_path, *options)[0]["program"] == "text"
    assert run_fake(path, *options, FAKE_DIES="1").returncode == 9
    assert len([*cache.iterdir()]) == 2  # the entry and the marker of the crash
    assert [play(path, tmp_path, *options)[0]["program"] for _ in range(2)] == ["text", "cache"]
    assert len([*cache.iterdir()]) == 1


def test_saves_binaries(tmp_path: Path) -> None:
    path = prepare_fake(tmp_path / "f.fourfold", fake_device(), {"line": [line()]})
    (report,) = run_fake_json(path, "--save-binaries", tmp_path / "b")
    file = Path(report["binary"]["file"])
    assert file.stat().st_size == report["binary"]["bytes"]
    assert read_binary(Container.open(file)).startswith(b"FAKE")


def test_reports_build_errors(tmp_path: Path) -> None:
    path = prepare_fake(tmp_path / "f.fourfold", fake_device(), {"line": [line()]})
    (report,) = run_fake_json(path, status=1, FAKE_BUILD="fails")
    assert report["status"] == "build"
    assert report["error"].endswith("line 1: nothing is right")


@pytest.mark.parametrize("wrong", ["floats", "halves, branches", "bytes"])
def test_rejects_a_device_that_fails_its_self_test(wrong: str, tmp_path: Path) -> None:
    path = prepare_fake(
        tmp_path / "f.fourfold", fake_device({"self_test": wrong}), {"line": [line()]}
    )
    (report,) = run_fake_json(path, status=1)
    assert report["status"] == "device"
    assert report["error"].endswith(f"its self-test failed for: {wrong}")


def test_fp16_failures_only_affect_fp16_plans(tmp_path: Path) -> None:
    facts = {**EVERYTHING, "self_test": "halves"}
    plans = {"mixed": [everything()], "line": [line()]}
    path = prepare_fake(tmp_path / "f.fourfold", fake_device(facts), plans)
    first, second = run_fake_json(path, status=1)
    assert first["status"] == "device"
    assert "error" not in second


def test_continues_after_a_model_fails(tmp_path: Path) -> None:
    plans = {"needy": [everything()], "line": [line()]}
    path = prepare_fake(tmp_path / "f.fourfold", fake_device(), plans)
    first, second = run_fake_json(path, status=1)
    assert (first["model"], first["status"]) == ("needy", "plan")
    assert (second["model"], second["number"]) == ("line", 1)
    assert "error" not in second
