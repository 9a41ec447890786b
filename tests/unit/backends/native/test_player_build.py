"""The C player is compiled with any available compiler, once per state of its sources."""

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
# These tests need the system compiler, or a fake Android kit based on it.
needs_compiler = pytest.mark.skipif(
    shutil.which(os.environ.get("CC", "cc")) is None, reason="no C compiler is installed"
)
ELF_MACHINES = {  # machine byte of the ELF header
    "x86_64-linux-gnu": b"\x3e",
    "aarch64-linux-gnu": b"\xb7",
    "armv7-linux-gnueabihf": b"\x28",
    "riscv64-linux-gnu": b"\xf3",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with sources of a tiny program in place of the player's."""
    result = tmp_path / "sources"
    result.mkdir()
    (result / "main.c").write_text(PROGRAM)
    (result / "answer.h").write_text("#define ANSWER 42\n")
    monkeypatch.setattr(native, "SOURCE_FOLDERS", (result, result))
    return result


@pytest.fixture
def no_android(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANDROID_NDK_HOME", "ANDROID_NDK_ROOT", "NDK_HOME", "ANDROID_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("ANDROID_SDK_ROOT", raising=False)
    monkeypatch.setenv("HOME", os.fspath(tmp_path))


def run_program(program: Path) -> str:
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.strip()


@needs_compiler
def test_compiles_for_this_machine_and_caches_the_program(folder: Path, tmp_path: Path) -> None:
    cache = os.fspath(tmp_path / "cache")
    first = build_player(None, cache)
    assert run_program(first) == "42"
    stamp = first.stat().st_mtime_ns
    assert build_player(None, cache) == first
    assert first.stat().st_mtime_ns == stamp


@needs_compiler
def test_changed_sources_are_compiled_again(folder: Path, tmp_path: Path) -> None:
    cache = os.fspath(tmp_path / "cache")
    first = build_player(None, cache)
    (folder / "answer.h").write_text("#define ANSWER 7\n")
    second = build_player(None, cache)
    assert second != first
    assert (run_program(first), run_program(second)) == ("42", "7")


@needs_compiler
def test_compiler_errors_are_reported_and_nothing_is_cached(folder: Path, tmp_path: Path) -> None:
    (folder / "answer.h").write_text("#error nothing goes\n")
    with pytest.raises(InputError, match="nothing goes"):
        build_player(None, os.fspath(tmp_path / "cache"))
    assert list((tmp_path / "cache" / "players").iterdir()) == []


def test_cross_compiling_needs_zig(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "installed_version", lambda name: None)
    with pytest.raises(InputError, match=r"fourfold\[player\]"):
        build_player(TARGETS["x86_64-windows"], os.fspath(tmp_path))


@pytest.mark.slow
@pytest.mark.skipif(installed_version("ziglang") is None, reason="Zig is not installed")
@pytest.mark.parametrize("name", [*ELF_MACHINES, "x86_64-windows"])
def test_zig_cross_compiles(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(native, "_system_compiler", lambda: None)
    content = build_player(TARGETS[name], os.fspath(tmp_path)).read_bytes()
    if name in ELF_MACHINES:
        assert (content[:4], content[18:19]) == (b"\x7fELF", ELF_MACHINES[name])
    else:
        assert content[:2] == b"MZ"


@pytest.mark.usefixtures("no_android")
def test_error_without_the_ndk_lists_searched_variables(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ANDROID_NDK_HOME") as raised:
        build_player(TARGETS["aarch64-linux-android"], os.fspath(tmp_path))
    assert "cannot load its libOpenCL" in raised.value.fix


@pytest.mark.usefixtures("no_android")
@needs_compiler
@pytest.mark.parametrize("place", ["ANDROID_NDK_HOME", "ANDROID_HOME"])
def test_compiles_for_android_with_the_newest_ndk(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The fake kit is a script that calls the system compiler."""
    named = tmp_path / "kits"
    for version in ("9.0.1", "27.2.3"):
        kit = named if place == "ANDROID_NDK_HOME" else named / "ndk" / version
        tools = kit / "toolchains/llvm/prebuilt/linux-x86_64/bin"
        tools.mkdir(parents=True, exist_ok=True)
        script = tools / "aarch64-linux-android21-clang"
        script.write_text(f'#!/bin/sh\necho {version} > "{tmp_path}/used"\nexec cc "$@"\n')
        script.chmod(0o755)
    monkeypatch.setenv(place, os.fspath(named))
    result = build_player(TARGETS["aarch64-linux-android"], os.fspath(tmp_path / "cache"))
    assert run_program(result) == "42"
    assert (tmp_path / "used").read_text().strip() == "27.2.3"


def test_finds_android_folders() -> None:
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
def test_maps_machine_names_to_targets(machine: str, system: str, target: str) -> None:
    result = find_target_machine(machine, system)
    assert result is not None
    assert result.name == target


def test_unknown_machines_have_no_target() -> None:
    assert find_target_machine("s390x") is None


@needs_compiler
def test_player_command_writes_a_program(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOURFOLD_CACHE", "none")
    done = CliRunner().invoke(main, ["player", "build", "-o", os.fspath(tmp_path)])
    assert done.exit_code == 0, done.output
    assert run_program(tmp_path / "fourfold-run") == "42"
    done = CliRunner().invoke(main, ["player", "sources", os.fspath(tmp_path / "copy")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "copy" / "answer.h").exists()


def test_wheel_contains_the_sources() -> None:
    """The wheel installs the folder of a checkout where the package looks for it."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    packaged, checkout = SOURCE_FOLDERS
    assert f'"{checkout.name}" = "fourfold/{packaged.name}"' in text
    assert checkout == ROOT / "player"
    assert (checkout / "fourfold.h").exists()
    assert '"/player"' in text.partition("targets.sdist]")[2]
