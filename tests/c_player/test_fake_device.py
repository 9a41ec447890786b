"""Ways in and out, facts, faults and kept binaries of the player in C, on a driver that checks."""

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
    stepped,
    told_by_fake,
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
    """What the file's only model makes of X."""
    np.save(folder / "x.npy", X)
    where = ("--input", folder / "x.npy", "--output", folder / "out")
    (told,) = told_by_fake(path, *where, *more, **environment)
    return told, np.load(folder / "out" / "0.0.npy")


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
def test_ways_in_and_out(
    compiled: Any, settings: dict[str, str], facts: dict[str, Fact], tmp_path: Path
) -> None:
    path = prepare_fake(tmp_path / "f", fake_device(facts, **settings), {"line": [compiled]})
    told, y = play(path, tmp_path, "--bench", "--profile", "--seconds", "0", **settings)
    assert np.array_equal(y, 2 * X + 1)
    assert told["profile"]["launches"][0]["seconds"] == told["profile"]["span"] == 2e-6
    assert told["bench"]["runs"] >= 3
    assert told["outputs"][0]["quantization"] == [[0.5], [3], None]


def test_all_kinds_of_buffers_arguments_and_ports(tmp_path: Path) -> None:
    for texels in (65536, 200):
        device = fake_device({**EVERYTHING, "image_texels": texels})
        path = prepare_fake(tmp_path / "f", device, {"all": [everything()]})
        (told,) = told_by_fake(path, "--profile", FAKE_TEXELS=str(texels))
        assert [one["type"] for one in told["inputs"]] == ["i8[1,48]", "u8[1,5,5,3]"]
        assert [one["pixels"] for one in told["inputs"]] == ["", "rgb from 0 to 1"]
        assert [one["bytes"] for one in told["outputs"]] == [64, 128, 0]
        assert told["outputs"][0]["quantization"] == [[0.5, 0.25], [1, 2], 0]
        assert [one["node"] for one in told["profile"]["launches"]][1] == 'b = "second"(a)'
        assert told["device_bytes"] == everything().plan.device_bytes


@pytest.mark.parametrize("fact", sorted(set(EVERYTHING) - {"image_windows", "self_test"}))
def test_a_fact_that_nobody_knows_counts_as_absent(fact: str, tmp_path: Path) -> None:
    facts = {name: value for name, value in EVERYTHING.items() if name != fact}
    path = prepare_fake(tmp_path / "f", fake_device(facts), {"all": [everything()]})
    (told,) = told_by_fake(path, status=1)
    needed = "images" if fact == "image_texels" else fact
    assert told["status"] == "plan"
    assert f"lacks '{needed}'" in told["error"]


@pytest.mark.parametrize("settings", [GPU, CPU], ids=["gpu", "cpu"])
def test_every_call_that_can_fail(settings: dict[str, str], tmp_path: Path) -> None:
    facts = {**EVERYTHING, **POINTERS, **WAITING}
    plans = {"all": [everything()], "line": [stepped()], "flags": [flagged()]}
    path = prepare_fake(tmp_path / "f", fake_device(facts, **settings), plans)
    lines = play_files([path], "400", **settings)
    fine = [one.split()[2] == "3" for one in lines]
    last = max(number for number, good in enumerate(fine) if not good)
    assert 100 < last < 350  # there are that many calls, and none of the numbers behind them is one
    assert fine.count(False) > 80  # not all answers are missed
    found = {one.split()[4] for one, good in zip(lines, fine, strict=True) if not good}
    assert found <= {"opencl:", "memory:", "plan:", "device:", "build:"}


def test_binaries_are_kept_and_used(tmp_path: Path) -> None:
    device = fake_device()
    path, cache = prepare_fake(tmp_path / "f", device, {"line": [line()]}), tmp_path / "cache"
    found = [play(path, tmp_path, "--cache", str(cache))[0]["program"] for _ in range(2)]
    assert found == ["text", "cache"]
    (entry,) = cache.iterdir()
    parts = program_parts(line().plan.program, device)
    file = Container.open(entry)
    assert entry.name == f"{key_of(parts)}.fourfold"
    assert read_head(file) == ("binary", "line", parts)
    assert read_binary(file) == b"FAKE" + line().plan.program.text.encode()
    assert entry.stat().st_mode & 0o777 == 0o600
    assert cache.stat().st_mode & 0o777 == 0o700


def test_a_kept_binary_that_is_damaged_or_deadly_is_made_again(tmp_path: Path) -> None:
    path, cache = prepare_fake(tmp_path / "f", fake_device(), {"line": [line()]}), tmp_path / "c"
    how = ("--cache", str(cache))
    play(path, tmp_path, *how)
    (entry,) = cache.iterdir()
    data = bytearray(entry.read_bytes())
    data[-1] ^= 1
    entry.write_bytes(data)
    assert play(path, tmp_path, *how)[0]["program"] == "text"
    assert run_fake(path, *how, FAKE_DIES="1").returncode == 9
    assert len([*cache.iterdir()]) == 2  # the mark that it died
    assert [play(path, tmp_path, *how)[0]["program"] for _ in range(2)] == ["text", "cache"]
    assert len([*cache.iterdir()]) == 1


def test_binaries_can_be_written(tmp_path: Path) -> None:
    path = prepare_fake(tmp_path / "f", fake_device(), {"line": [line()]})
    (told,) = told_by_fake(path, "--save-binaries", tmp_path / "b")
    file = Path(told["binary"]["file"])
    assert file.stat().st_size == told["binary"]["bytes"]
    assert read_binary(Container.open(file)).startswith(b"FAKE")


def test_kernels_that_do_not_build(tmp_path: Path) -> None:
    path = prepare_fake(tmp_path / "f", fake_device(), {"line": [line()]})
    (told,) = told_by_fake(path, status=1, FAKE_BUILD="fails")
    assert told["status"] == "build"
    assert told["error"].endswith("line 1: nothing is right")


@pytest.mark.parametrize("wrong", ["floats", "halves, branches", "bytes"])
def test_a_device_that_does_not_compute_right(wrong: str, tmp_path: Path) -> None:
    path = prepare_fake(tmp_path / "f", fake_device({"self_test": wrong}), {"line": [line()]})
    (told,) = told_by_fake(path, status=1)
    assert told["status"] == "device"
    assert told["error"].endswith(f"a self-test found wrong {wrong}")


def test_halves_matter_only_where_there_are_some(tmp_path: Path) -> None:
    facts = {**EVERYTHING, "self_test": "halves"}
    plans = {"mixed": [everything()], "line": [line()]}
    path = prepare_fake(tmp_path / "f", fake_device(facts), plans)
    first, second = told_by_fake(path, status=1)
    assert first["status"] == "device"
    assert "error" not in second


def test_one_model_that_fails_stops_no_other(tmp_path: Path) -> None:
    plans = {"needy": [everything()], "line": [line()]}
    path = prepare_fake(tmp_path / "f", fake_device(), plans)
    first, second = told_by_fake(path, status=1)
    assert (first["model"], first["status"]) == ("needy", "plan")
    assert (second["model"], second["number"]) == ("line", 1)
    assert "error" not in second
