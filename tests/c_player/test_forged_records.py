"""Checks that every number of a plan's record is validated, even with valid checksums."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from c_player.fake_device import EVERYTHING, everything, fake_device, play_files, prepare_fake
from c_player.mutations import overlapping

from fourfold.errors import ModelError
from fourfold.plan import Container, Section
from fourfold.plan.container import write_container
from fourfold.store.prepared import Prepared

Record = dict[str, Any]


def forge(*place: Any) -> Callable[[Record, Any], None]:
    """Return a function that replaces one value of the record."""

    def change(record: Any, value: Any) -> None:
        for key in place[:-1]:
            record = record[key]
        record[place[-1]] = value

    return change


# The first launch has a pointer into each of ten buffers, three images and two numbers.
FORGERIES: list[tuple[Callable[[Record, Any], None], Any]] = [
    (forge("buffers", 6, 3), 4096 - 127),  # offset of a variable's initial bytes
    (forge("buffers", 6, 3), -1),
    (forge("buffers", 2, 3), 3073),  # offset of a part of the constants
    (forge("buffers", 2, 2), 1025),  # more constants than the section has
    (forge("buffers", 2, 2), 1023),
    (forge("buffers", 1, 1), "arena"),
    (forge("buffers", 0, 2), -1),
    (forge("buffers", 0, 2), 2**48),
    (forge("buffers", 0, 1), "attic"),
    (forge("buffers", 8), ["counters", "host_protocol", 191]),
    (forge("buffers", 8), ["counters", "state"]),
    (forge("launches", 0, 1, 0), [10, 0]),  # a buffer that does not exist
    (forge("launches", 0, 1, 0), [-1, 0]),
    (forge("launches", 0, 1, 0), [0, 640]),  # the end of the buffer
    (forge("launches", 0, 1, 0), [0]),
    (forge("launches", 0, 1, 10), [1, 0, "f32[193,4]"]),  # an image with one texel too many
    (forge("launches", 0, 1, 10), [1, 4, "f32[192,4]"]),
    (forge("launches", 0, 1, 10), [1, 2, "f32[32,4]"]),
    (
        forge("launches", 0, 1, 10),
        [0, 0, "f32[32,4]"],
    ),  # an image of a buffer that holds no constants
    (forge("launches", 0, 1, 10), [1, 0, "f32[32,3]"]),
    (forge("launches", 0, 1, 10), [1, 0, "u8[32,4]"]),
    (forge("launches", 0, 1, 10), [1, 0, "f32[0,4]"]),
    (forge("launches", 0, 1, 13), 2**31),
    (forge("launches", 0, 1, 13), 0.5),
    (forge("launches", 0, 0), None),
    (forge("launches", 0, 2), [64, 4, 3.0]),
    (forge("launches", 0, 2), [65, 4, 2]),  # not a multiple of the work-group
    (forge("launches", 0, 2), []),
    (forge("launches", 0, 2), [64, 4]),
    (forge("launches", 0, 3), [0, 2, 1]),
    (forge("launches", 0, 3), [16, 2, 1, 1]),
    (forge("launches", 0, 6), 0),
    (forge("inputs", 0, 1), "i8[1,49]"),  # larger than its buffer
    (forge("inputs", 0, 1), "i8[281474976710657]"),
    (forge("inputs", 0, 1), "i8[4294967296,4294967296]"),
    (forge("inputs", 0, 1), "i8[1,48"),
    (forge("inputs", 0, 1), "i8[1,]"),
    (forge("inputs", 0, 1), "i9[1,48]"),
    (forge("inputs", 0, 1), f"i8[{'1,' * 16}48]"),
    (forge("inputs", 0, 2), 10),
    (forge("inputs", 0, 3), [[0.5], [-3]]),
    (forge("inputs", 0, 3), [["a"], [-3], None]),
    (forge("inputs", 0, 3), [[0.5], [0.5], None]),
    (forge("inputs", 0), ["x"]),
    (forge("input_names"), ["x"]),
    (forge("output_names", 0), 3),
    (forge("options"), None),
    (forge("buffers"), {}),
    (forge("launches"), None),
]


def forged(path: Path, whole: Path, change: Callable[[Record, Any], None], value: Any) -> Path:
    """Write the file with a changed record of its plan, and valid checksums."""
    file = Container.open(whole)
    sections = [Section(name, file.section(n, name)) for n, name in enumerate(file.names)]
    index = file.names.index("plan")
    record = json.loads(bytes(sections[index].data))
    change(record, value)
    sections[index] = Section("plan", json.dumps(record).encode())
    write_container(path, sections, 0o600, sync=False)
    return path


def test_rejects_forged_records(tmp_path: Path) -> None:
    valid = prepare_fake(
        tmp_path / "whole.fourfold", fake_device(EVERYTHING), {"all": [everything()]}
    )
    paths = [forged(tmp_path / str(n), valid, *one) for n, one in enumerate(FORGERIES)]
    good, *lines = play_files([valid, *paths])
    assert good.split()[1:3] == ["1", "1"]
    for (_, value), report in zip(FORGERIES, lines, strict=True):
        assert "the record of a plan is invalid" in report, (value, report)


@pytest.mark.parametrize("size", [-1, 2**40, 2**62, 4095, None, "4096"])
def test_rejects_forged_sizes_of_constants(size: Any, tmp_path: Path) -> None:
    valid = prepare_fake(
        tmp_path / "whole.fourfold", fake_device(EVERYTHING), {"all": [everything()]}
    )
    path = forged(tmp_path / "f.fourfold", valid, forge("constants", 0), size)
    (report,) = play_files([path])
    assert "the record of its constants is invalid" in report
    prepared = Prepared.open(str(path))
    with pytest.raises(ModelError, match="the record of a plan is malformed"):
        prepared.model(prepared.rows[0])


def test_rejects_sections_that_together_expand_too_far(tmp_path: Path) -> None:
    """They may overlap, so that each alone is possible."""
    path = tmp_path / "f.fourfold"
    path.write_bytes(overlapping(64))
    (report,) = play_files([path])
    assert "impossible size before compression" in report


@pytest.mark.parametrize("least", [[1, 764, "f32[1,4]"], [0, 639], [9, 0]])
def test_accepts_values_at_the_limits(least: list[Any], tmp_path: Path) -> None:
    valid = prepare_fake(
        tmp_path / "whole.fourfold", fake_device(EVERYTHING), {"all": [everything()]}
    )
    position = 10 if len(least) == 3 else 0
    path = forged(tmp_path / "f.fourfold", valid, forge("launches", 0, 1, position), least)
    assert play_files([path])[0].split()[1:3] == ["1", "1"]
