"""Links to other machines: commands, copies, and errors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from remote.machine_setup import HOST, SERIAL, FakeMachine

from fourfold.backends.connections import ConnectionLost
from fourfold.backends.remote import link as link_module
from fourfold.backends.remote.link import AdbLink, Link, SshLink, find_phone
from fourfold.backends.remote.machine import Machine, _family
from fourfold.errors import DeviceError, InputError

NO_PROCESS = 2**22 + 7  # larger than any process id


@pytest.fixture(params=["adb", "ssh"])
def link(request: pytest.FixtureRequest, machine: FakeMachine) -> Link:
    return AdbLink(SERIAL) if request.param == "adb" else SshLink(HOST)


def test_command_returns_output_and_status(link: Link) -> None:
    answer = link.run("echo one; echo two >&2; (exit 7)")
    assert answer.status == 7
    assert sorted(answer.output.split()) == ["one", "two"]


def test_accepts_crlf_line_ends(machine: FakeMachine) -> None:
    answer = AdbLink(SERIAL).run(r"printf 'one\r\ntwo\r\n'")
    assert answer == ("one\ntwo\n", 0)


def test_reports_failed_commands(link: Link) -> None:
    with pytest.raises(DeviceError, match="looking around") as raised:
        link.check("echo it broke; false", "looking around")
    assert raised.value.why == "it broke"


def test_copies_files_in_both_directions(link: Link, tmp_path: Path, machine: FakeMachine) -> None:
    content = bytes(range(256)) * 100
    (tmp_path / "sent").write_bytes(content)
    there = "/data/local/tmp/a file"
    link.push(tmp_path / "sent", there)
    link.pull(there, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == content
    link.run(f"rm '{there}'")
    assert machine.left == []


def test_reports_a_cut_cable(link: Link, machine: FakeMachine) -> None:
    machine.set(cut_at=0)
    with pytest.raises(ConnectionLost, match="cannot be reached") as raised:
        link.run("true")
    assert "intermediate results are cached" in raised.value.fix


@pytest.mark.parametrize(
    ("state", "fix"),
    [
        ("unauthorized", "Allow USB debugging"),
        ("offline", "plug it in again"),
        ("no permissions (user in plugdev group)", "udev"),
    ],
)
def test_reports_an_unusable_phone(machine: FakeMachine, state: str, fix: str) -> None:
    machine.set(attached={SERIAL: state})
    with pytest.raises(ConnectionLost) as raised:
        AdbLink(SERIAL).run("true")
    assert fix in raised.value.fix
    with pytest.raises(DeviceError) as told:
        find_phone("auto")
    assert fix in told.value.fix


def test_single_phone_is_the_default(machine: FakeMachine) -> None:
    machine.set(attached={SERIAL: "device", "OTHER": "offline"})
    assert find_phone("auto").host == SERIAL


def test_several_phones_need_a_name(machine: FakeMachine) -> None:
    machine.set(attached={SERIAL: "device", "OTHER": "device"})
    with pytest.raises(DeviceError, match=f"{SERIAL}, OTHER"):
        find_phone("auto")
    assert find_phone("OTHER").run("echo here").output == "here\n"


def test_reports_a_missing_phone(machine: FakeMachine) -> None:
    with pytest.raises(ConnectionLost, match="no such phone is attached"):
        AdbLink("NOBODY").run("true")
    machine.set(attached={})
    with pytest.raises(DeviceError, match="no phone is attached"):
        find_phone("auto")


def test_reports_a_missing_adb(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(link_module, "android_folders", lambda: ((), ()))
    with pytest.raises(InputError, match="adb is not installed"):
        find_phone("auto")


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        ("pi@board: Permission denied (publickey,password).", "ssh-copy-id"),
        ("ssh: Could not resolve hostname board", "check the name"),
        ("ssh: connect to host board port 22: Connection refused", "start one"),
        ("Host key verification failed.", "log in once"),
    ],
)
def test_reports_ssh_problems(machine: FakeMachine, said: str, fix: str) -> None:
    machine.set(ssh_problem=said)
    with pytest.raises(ConnectionLost) as raised:
        SshLink(HOST).run("true")
    assert fix in raised.value.fix


def test_close_removes_remote_files(link: Link, machine: FakeMachine) -> None:
    opened = Machine(link)
    folder = machine.folder / opened.folder.lstrip("/")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert os.access(folder / "fourfold-run", os.X_OK)
    name = opened.send(b"some bytes")
    assert opened.fetch(name) == b"some bytes"
    opened.close()
    assert machine.left == []


def test_removes_files_of_dead_processes(link: Link, machine: FakeMachine) -> None:
    others = [f"{_family()}-{os.getppid()}-0", "fourfold-00000000-1-0"]
    for name in (*others, f"{_family()}-{NO_PROCESS}-0"):
        (machine.temporary / name).mkdir()
    Machine(link).close()
    assert machine.left == sorted(others)


def test_reports_a_full_disk(machine: FakeMachine) -> None:
    machine.set(room=1000)
    with pytest.raises(DeviceError, match="No space left") as raised:
        Machine(AdbLink(SERIAL))
    assert "free disk space" in raised.value.fix
    assert machine.left == []


def test_rejects_unsupported_processors(link: Link, machine: FakeMachine) -> None:
    machine.answer("uname", "s390x")
    with pytest.raises(DeviceError, match="its processor is 's390x'"):
        Machine(link)
    assert machine.left == []


def test_reports_a_player_that_does_not_run(machine: FakeMachine) -> None:
    machine.set(foreign=True)
    opened = Machine(AdbLink(SERIAL))
    with pytest.raises(DeviceError, match="the player does not run"):
        opened.devices()
    opened.close()
    assert machine.left == []


def test_phone_needs_the_android_ndk(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the NDK, the error explains how to install it."""
    for name in ("ANDROID_NDK_HOME", "ANDROID_NDK_ROOT", "NDK_HOME", "ANDROID_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", os.fspath(machine.folder))
    machine.answer("getprop", "arm64-v8a")
    with pytest.raises(InputError, match="no compiler for aarch64-linux-android"):
        Machine(AdbLink(SERIAL))
    assert machine.left == []


def test_reports_a_machine_without_opencl(machine: FakeMachine) -> None:
    machine.set(environment={"LIBOPENCL_SO_PATH": "/nowhere/libOpenCL.so"})
    opened = Machine(AdbLink(SERIAL))
    with pytest.raises(DeviceError, match="has no OpenCL device"):
        opened.devices()
    opened.close()
