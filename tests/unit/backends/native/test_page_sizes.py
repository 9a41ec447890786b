"""Binaries for Android are aligned to pages of 16 KB, which Google Play requires."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from fourfold.backends import native
from fourfold.backends.native import TARGETS, build_player
from fourfold.errors import InputError

ROOT = Path(__file__).parents[4]
CMAKE_LISTS = ROOT / "examples" / "android" / "app" / "src" / "main" / "cpp" / "CMakeLists.txt"
PAGE_BYTES = 16384
PT_LOAD = 1
KIT_TOOLS = "toolchains/llvm/prebuilt/linux-x86_64/bin"
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None,
    reason="no C compiler for ELF is installed",
)


def load_alignments(content: bytes) -> list[int]:
    """Return the alignment of each loadable segment of an ELF file."""
    assert content[:4] == b"\x7fELF"
    is_64_bit = content[4] == 2
    order = "<" if content[5] == 1 else ">"
    offset_at, counts_at, align_at = (32, 54, 48) if is_64_bit else (28, 42, 28)
    word = "Q" if is_64_bit else "I"
    (offset,) = struct.unpack_from(f"{order}{word}", content, offset_at)
    size, count = struct.unpack_from(f"{order}HH", content, counts_at)
    headers = [offset + size * number for number in range(count)]
    return [
        struct.unpack_from(f"{order}{word}", content, at + align_at)[0]
        for at in headers
        if struct.unpack_from(f"{order}I", content, at)[0] == PT_LOAD
    ]


@pytest.fixture
def _small_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "main.c").write_text("int main(void) { return 0; }\n")
    monkeypatch.setattr(native, "SOURCE_FOLDERS", (folder, folder))


@pytest.mark.usefixtures("_small_sources")
@pytest.mark.parametrize("name", [name for name, one in TARGETS.items() if one.is_android])
def test_player_segments_with_the_system_linker(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script in place of the NDK's compiler calls the system compiler with the same options."""
    tools = tmp_path / "kit" / KIT_TOOLS
    tools.mkdir(parents=True)
    script = tools / f"{TARGETS[name].android}21-clang"
    script.write_text('#!/bin/sh\nexec cc "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("ANDROID_NDK_HOME", os.fspath(tmp_path / "kit"))
    program = build_player(TARGETS[name], os.fspath(tmp_path / "cache"))
    assert set(load_alignments(program.read_bytes())) == {PAGE_BYTES}


@pytest.mark.usefixtures("_small_sources")
@pytest.mark.parametrize("name", [name for name, one in TARGETS.items() if one.is_android])
def test_player_segments_with_the_ndk(name: str, tmp_path: Path) -> None:
    try:
        native.find_compiler(TARGETS[name])
    except InputError as error:
        pytest.skip(f"the Android NDK is not installed: {error.why}")
    program = build_player(TARGETS[name], os.fspath(tmp_path / "cache"))
    assert set(load_alignments(program.read_bytes())) == {PAGE_BYTES}


@pytest.mark.skipif(shutil.which("cmake") is None, reason="CMake is not installed")
def test_example_segments(tmp_path: Path) -> None:
    """Use the example's build file with a small source in place of the wrapper and the player."""
    shutil.copy(CMAKE_LISTS, tmp_path)
    (tmp_path / "fourfold_jni.c").write_text("int answer(void) { return 42; }\n")
    build = tmp_path / "build"
    commands = (["cmake", "-S", tmp_path, "-B", build], ["cmake", "--build", build])
    for command in commands:
        subprocess.run(command, check=True, capture_output=True)
    library = (build / "libfourfold_jni.so").read_bytes()
    assert set(load_alignments(library)) == {PAGE_BYTES}
