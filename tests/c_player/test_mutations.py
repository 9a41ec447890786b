"""Checks that damaged and hostile files are rejected or run within bounds."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from c_player.fake_device import (
    EVERYTHING,
    everything,
    fake_device,
    flagged,
    play_files,
    prepare_fake,
    stepped,
)
from c_player.mutations import flip, mutated, resealed
from tiny_plan import line

from fourfold.plan import Container, Section, container_bytes

CPU = {"FAKE_KIND": "cpu", "FAKE_UNIFIED": "1"}
FACTS = {
    **EVERYTHING,
    **dict.fromkeys(("resident", "reaches_host", "persistent_mapping", "host_pointers"), True),
}


def silent(path: Path, settings: dict[str, str]) -> bytes:
    """Write a file with plans of all forms; kernels that use host addresses do nothing."""
    plans = {"line": [line()], "steps": [stepped("quiet")], "all": [everything()]}
    plans["flags"] = [flagged()]
    prepare_fake(path, fake_device(FACTS, **settings), plans)
    return resealed(uncompressed(path.read_bytes()).replace(b'"line', b'"Line'))


def uncompressed(data: bytes) -> bytes:
    """Return a file without compressed sections, whose texts can be changed in place."""
    file = Container(data, "the file")
    return container_bytes(
        [Section(name, file.section(at, name)) for at, name in enumerate(file.names)]
    )


def attack(folder: Path, seeds: range, settings: dict[str, str]) -> list[str]:
    data, paths = silent(folder / "whole.fourfold", settings), []
    for seed in seeds:
        paths.append(folder / str(seed))
        paths[-1].write_bytes(mutated(data, seed))
    lines = play_files(paths, **settings)
    assert len(lines) == len(seeds)
    for path in paths:
        path.unlink()
    return lines


@pytest.mark.parametrize("settings", [{}, CPU], ids=["gpu", "cpu"])
def test_hundreds_of_damaged_files(settings: dict[str, str], tmp_path: Path) -> None:
    lines = attack(tmp_path, range(400), settings)
    played = [int(one.split()[2]) for one in lines]
    words = {one.split()[4] for one in lines if one.split()[4] != "ok:"}
    assert {"file:", "plan:"} <= words  # the files reach different checks
    assert 20 < sum(count == 4 for count in played) < 300  # some damage is harmless


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 11000, 1000))
def test_thousands_of_damaged_files(start: int, tmp_path: Path) -> None:
    attack(tmp_path, range(start, start + 1000), CPU if start % 2000 else {})


def test_checksums_detect_damage(tmp_path: Path) -> None:
    valid = prepare_fake(tmp_path / "whole.fourfold", fake_device(), {"line": [line()]})
    (right,) = play_files([valid])
    paths = [tmp_path / f"{seed}.f" for seed in range(300)]
    for seed, path in enumerate(paths):
        path.write_bytes(flip(valid.read_bytes(), random.Random(seed)))
    report = [one.split()[1:5] for one in play_files(paths)]
    assert {tuple(one) for one in report if one[3] != "file:"} == {tuple(right.split()[1:5])}
    assert sum(one[3] == "file:" for one in report) > 200
