"""Forged answers of remote devices and forged prepared files raise only our errors."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from fuzz.forged_files import original
from fuzz.forgeries import KINDS, try_all
from fuzz.hostile_values import forge_record, nested
from fuzz.remote_answers import DEVICE, HostileLink

from fourfold.backends.remote import devices, machine
from fourfold.backends.remote.answers import CheckedAnswer, read_object
from fourfold.config import ALL
from fourfold.errors import DeviceError, ModelError
from fourfold.plan import Container, Section, container_bytes
from fourfold.plan.placement import Placement
from fourfold.store.prepared import Prepared

CASES = 150


@pytest.mark.parametrize("kind", KINDS)
def test_forgeries_raise_only_our_errors(kind: str) -> None:
    results, findings = try_all(kind, range(CASES))
    assert not findings
    assert len(results) == 2, "some are refused, and some are not"


@pytest.mark.parametrize("name", sorted(DEVICE))
@pytest.mark.parametrize("value", [None, [], {}, "x" * 70_000, -1, 2**70, nested(50), "missing"])
def test_every_fact_of_a_remote_device_is_checked(name: str, value: object) -> None:
    row = {key: one for key, one in DEVICE.items() if key != name or value != "missing"}
    if value != "missing":
        row[name] = value
    if value == [] and name == "extensions":
        assert devices._device(row, "ssh:board").remote == "ssh:board"
        return
    with pytest.raises(
        DeviceError, match=f"answer of ssh:board cannot be used[\\s\\S]*'{name}' is"
    ):
        devices._device(row, "ssh:board")


def test_deeply_nested_answers_are_not_read() -> None:
    assert read_object('{"a":' * 100_000) is None
    assert read_object('{"error": ' + "9" * 5000 + "}") is None
    assert read_object("[1]") is None
    assert read_object('{"a": 1}') == {"a": 1}


@pytest.mark.parametrize("times", [[], [None], ["1"], [float("nan")], [-1.0], [True], 1.0, {}])
def test_rejects_malformed_times(times: object) -> None:
    with pytest.raises(DeviceError, match="'seconds'"):
        CheckedAnswer({"seconds": times}, "ssh:board").all_seconds("seconds", 1)


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a b", "a\nb", "", "a\0b", "ä", "a//b"])
def test_rejects_file_names_with_other_characters(name: str) -> None:
    with pytest.raises(DeviceError, match="a file name"):
        CheckedAnswer({"file": name}, "ssh:board").file_name("file")
    assert CheckedAnswer({"file": "0/entry-1.bin"}, "").file_name("file") == "0/entry-1.bin"


def forged_index(*path: object, value: object) -> bytes:
    """Return the prepared file with one value of its index replaced, or removed for `...`."""
    file = Container(original(), "the file")
    sections = [Section(name, bytes(file.section(n, name))) for n, name in enumerate(file.names)]
    index = holder = json.loads(bytes(sections[0].data))
    for key in path[:-1]:
        holder = holder[key]
    if value is ...:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return container_bytes([Section("index", json.dumps(index).encode()), *sections[1:]])


@pytest.mark.parametrize("table", ["models", "plans", "binaries", "choices"])
@pytest.mark.parametrize("value", [..., None, {}, [], "text", -1, 0.5])
def test_every_field_of_an_index_is_checked(table: str, value: object) -> None:
    """Another value of the same type, such as another text, may be valid."""
    index = Prepared.open(original(), ALL).index
    accepted = {"text": str, "{}": dict, "0.5": float}.get(str(value))
    for name, old in index[table][0].items():
        same_kind = accepted is not None and isinstance(old, accepted)
        empty_list = value == [] and name in ("parts", "sections")
        if same_kind or empty_list or (table == "choices" and name == "added"):
            continue
        with pytest.raises(ModelError, match="index is invalid"):
            Prepared.open(forged_index(table, 0, name, value=value), ALL)


@pytest.mark.parametrize("number", [-1, 2, True, 10**6])
def test_numbers_of_models_and_sections_are_checked(number: object) -> None:
    for path in (("plans", 0, "model"), ("plans", 0, "sections", 0), ("binaries", 0, "section")):
        if number == 2 and path[-1] != "model":
            continue
        with pytest.raises(ModelError, match="index is invalid"):
            Prepared.open(forged_index(*path, value=number), ALL)


def test_malformed_placements_are_damage() -> None:
    for content in (b"", b"{}", b"[]", b'{"rows": 1}', b"\xff", b"[" * 100_000):
        with pytest.raises(ModelError, match="placement record is malformed"):
            Placement.from_bytes(content)


def test_the_player_is_made_executable_in_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other machine names the folder, which may hold any character."""
    commands: list[str] = []

    class Recorded(HostileLink):
        def check(self, command: str, doing: str) -> str:
            commands.append(command)
            return "folder=/tmp/a b;rm -rf ~\nmachine=x86_64\n" if "mkdir" in command else ""

    link = Recorded(random.Random(0))
    opened = object.__new__(machine.Machine)
    opened.link, opened.folder = link, "/tmp/a b;rm -rf ~"
    opened.target = machine.host_target()
    monkeypatch.setenv("FOURFOLD_CACHE", str(tmp_path))
    monkeypatch.setattr(machine, "build_player", lambda *arguments: tmp_path)
    opened._send_player()
    assert commands == ["chmod 700 '/tmp/a b;rm -rf ~/fourfold-run'"]


def test_forging_changes_records_reproducibly() -> None:
    record = {"a": [1, 2], "b": {"c": "d"}}
    first, second = (forge_record(record, random.Random(3)) for _ in range(2))
    assert repr(first) == repr(second) != repr(record)
