"""The player in C is compiled by whoever can, once for each state of its sources."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from fourfold.backends import native
from fourfold.backends.native import TARGETS, build_player, find_target_machine
from fourfold.cli import main
from fourfold.config import android_folders
from fourfold.errors import InputError
from fourfold.support.packages import installed_version

ROOT = Path(__file__).parents[4]
SOURCE_FOLDERS = native.SOURCE_FOLDERS  # before a test changes them
PROGRAM = """#include "answer.h"
#include <stdio.h>
int main(void) { printf("%d\\n", ANSWER); return 0; }
"""
# What these build with is the system's own compiler, or a kit for Android that stands on it.
needs_compiler = pytest.mark.skipif(
    shutil.which(os.environ.get("CC", "cc")) is None, reason="there is no C compiler"
)
MARKS = {  # how a program begins for each system, and where ELF has its machine
    "x86_64-linux-gnu": b"\x3e",
    "aarch64-linux-gnu": b"\xb7",
    "armv7-linux-gnueabihf": b"\x28",
    "riscv64-linux-gnu": b"\xf3",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sources of a tiny program in place of the player's."""
    made = tmp_path / "sources"
    made.mkdir()
    (made / "main.c").write_text(PROGRAM)
    (made / "answer.h").write_text("#define ANSWER 42\n")
    monkeypatch.setattr(native, "SOURCE_FOLDERS", (made, made))
    return made


@pytest.fixture
def no_android(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANDROID_NDK_HOME", "ANDROID_NDK_ROOT", "NDK_HOME", "ANDROID_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("ANDROID_SDK_ROOT", raising=False)
    monkeypatch.setenv("HOME", os.fspath(tmp_path))


def answer(program: Path) -> str:
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.strip()


@needs_compiler
def test_it_is_compiled_for_this_machine_and_kept(folder: Path, tmp_path: Path) -> None:
    cache = os.fspath(tmp_path / "cache")
    first = build_player(None, cache)
    assert answer(first) == "42"
    stamp = first.stat().st_mtime_ns
    assert build_player(None, cache) == first
    assert first.stat().st_mtime_ns == stamp


@needs_compiler
def test_other_sources_are_another_player(folder: Path, tmp_path: Path) -> None:
    cache = os.fspath(tmp_path / "cache")
    first = build_player(None, cache)
    (folder / "answer.h").write_text("#define ANSWER 7\n")
    second = build_player(None, cache)
    assert second != first
    assert (answer(first), answer(second)) == ("42", "7")


@needs_compiler
def test_a_mistake_in_the_sources_is_told_and_nothing_is_kept(folder: Path, tmp_path: Path) -> None:
    (folder / "answer.h").write_text("#error nothing goes\n")
    with pytest.raises(InputError, match="nothing goes"):
        build_player(None, os.fspath(tmp_path / "cache"))
    assert list((tmp_path / "cache" / "players").iterdir()) == []


def test_another_machine_needs_zig(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "installed_version", lambda name: None)
    with pytest.raises(InputError, match=r"fourfold\[player\]"):
        build_player(TARGETS["x86_64-windows"], os.fspath(tmp_path))


@pytest.mark.slow
@pytest.mark.skipif(installed_version("ziglang") is None, reason="Zig is not installed")
@pytest.mark.parametrize("name", [*MARKS, "x86_64-windows"])
def test_zig_compiles_for_other_machines(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(native, "_system_compiler", lambda: None)
    content = build_player(TARGETS[name], os.fspath(tmp_path)).read_bytes()
    if name in MARKS:
        assert (content[:4], content[18:19]) == (b"\x7fELF", MARKS[name])
    else:
        assert content[:2] == b"MZ"


@pytest.mark.usefixtures("no_android")
def test_android_needs_the_ndk_and_says_where_it_looked(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ANDROID_NDK_HOME") as raised:
        build_player(TARGETS["aarch64-linux-android"], os.fspath(tmp_path))
    assert "cannot load its libOpenCL" in raised.value.fix


@pytest.mark.usefixtures("no_android")
@needs_compiler
@pytest.mark.parametrize("place", ["ANDROID_NDK_HOME", "ANDROID_HOME"])
def test_android_is_compiled_by_the_newest_ndk(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The kit is a script that has this machine's compiler do the work."""
    named = tmp_path / "kits"
    for version in ("9.0.1", "27.2.3"):
        kit = named if place == "ANDROID_NDK_HOME" else named / "ndk" / version
        tools = kit / "toolchains/llvm/prebuilt/linux-x86_64/bin"
        tools.mkdir(parents=True, exist_ok=True)
        script = tools / "aarch64-linux-android21-clang"
        script.write_text(f'#!/bin/sh\necho {version} > "{tmp_path}/used"\nexec cc "$@"\n')
        script.chmod(0o755)
    monkeypatch.setenv(place, os.fspath(named))
    made = build_player(TARGETS["aarch64-linux-android"], os.fspath(tmp_path / "cache"))
    assert answer(made) == "42"
    assert (tmp_path / "used").read_text().strip() == "27.2.3"


def test_where_android_may_be() -> None:
    kits, sdks = android_folders({"ANDROID_NDK_ROOT": "/kit", "ANDROID_HOME": "/sdk"})
    assert kits == ("/kit",)
    assert sdks[0] == "/sdk"


@pytest.mark.parametrize(
    ("machine", "system", "target"),
    [
        ("arm64-v8a", "android", "aarch64-linux-android"),
        ("armeabi-v7a", "android", "armv7-linux-android"),
        ("aarch64\n", "linux", "aarch64-linux-gnu"),
        ("armv7l", "linux", "armv7-linux-gnueabihf"),
        ("AMD64", "windows", "x86_64-windows"),
    ],
)
def test_what_machines_call_themselves(machine: str, system: str, target: str) -> None:
    found = find_target_machine(machine, system)
    assert found is not None
    assert found.name == target


def test_a_machine_that_nobody_compiles_for() -> None:
    assert find_target_machine("s390x") is None


@needs_compiler
def test_the_command_writes_a_program(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOURFOLD_CACHE", "none")
    done = CliRunner().invoke(main, ["player", "build", "-o", os.fspath(tmp_path)])
    assert done.exit_code == 0, done.output
    assert answer(tmp_path / "fourfold-run") == "42"
    done = CliRunner().invoke(main, ["player", "sources", os.fspath(tmp_path / "copy")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "copy" / "answer.h").exists()


def test_a_wheel_brings_the_sources() -> None:
    """Where an installed package looks for them is where a wheel puts the folder of a checkout."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    packaged, checkout = SOURCE_FOLDERS
    assert f'"{checkout.name}" = "fourfold/{packaged.name}"' in text
    assert checkout == ROOT / "player"
    assert (checkout / "fourfold.h").exists()
    assert '"/player"' in text.partition("targets.sdist]")[2]
