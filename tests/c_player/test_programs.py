"""Builds programs that use the player: the guide's, the C++ example, and a threaded one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from c_player.build import LIBRARY, LINK_FLAGS, PLAYER, ROOT, STRICT, build_program, compiler
from c_player.fake_device import (
    EVERYTHING,
    everything,
    fake_device,
    fake_environment,
    prepare_fake,
    stepped,
)
from docs.blocks import blocks
from tiny_plan import line

HERE = Path(__file__).parent


def output(program: Path, *arguments: str | Path, **more: str) -> str:
    words, environment = [str(program), *map(str, arguments)], fake_environment(**more)
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, ""), (done.stdout, done.stderr)
    return done.stdout


def test_program_of_the_guide(tmp_path: Path) -> None:
    (block,) = (one for one in blocks(ROOT / "docs/guide/c.md") if one.language == "c")
    assert block.file is not None
    source = tmp_path / block.file
    source.write_text(block.text)
    program = build_program((*LIBRARY, source))
    path = prepare_fake(tmp_path / "f.fourfold", fake_device(), {"line": [line()]})
    assert output(program, path) == "f32[16] on Fake GPU: the y[0] = 1\n"
    missing = subprocess.run([program, tmp_path / "g"], capture_output=True, text=True, check=False)
    assert missing.returncode == 1
    assert missing.stderr == f"cannot read '{tmp_path / 'g'}': No such file or directory\n"


def test_cpp_example(tmp_path: Path) -> None:
    compile_cpp = shutil.which("c++")
    if compile_cpp is None:
        pytest.skip("no C++ compiler was found")
    objects = []
    for source in LIBRARY:
        objects.append(tmp_path / f"{source.stem}.o")
        subprocess.run([compiler(), *STRICT, "-c", source, "-o", objects[-1]], check=True)
    flags = ("-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{PLAYER}")
    source, program = ROOT / "examples/cpp/play.cpp", tmp_path / "play"
    subprocess.run([compile_cpp, *flags, source, *objects, "-o", program, *LINK_FLAGS], check=True)
    plans = {"line": [line()], "all": [everything()]}
    path = prepare_fake(tmp_path / "f.fourfold", fake_device(EVERYTHING), plans)
    lines = output(program, path, "fake").splitlines()
    assert lines[0] == "line: the y f32[16]"
    assert lines[1:] == ["all: y i16[2,16]", "all: the state f32[32]", "all: none i64[0,3]"]


@pytest.mark.parametrize("file", ["player/CMakeLists.txt", "examples/cpp/CMakeLists.txt"])
def test_cmake(file: str, tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("CMake was not found")
    folder = (ROOT / file).parent
    subprocess.run(["cmake", "-S", folder, "-B", tmp_path], check=True, capture_output=True)
    target = "play" if "cpp" in file else "fourfold-run"
    words = ["cmake", "--build", tmp_path, "--target", target]
    subprocess.run(words, check=True, capture_output=True)
    assert [*tmp_path.rglob(target)]


@pytest.mark.parametrize("kind", ["gpu", "cpu"])
def test_many_threads(kind: str, tmp_path: Path) -> None:
    facts = {"persistent_mapping": True, "host_pointers": True, "resident": True, "self_test": ""}
    settings = {"FAKE_KIND": kind}
    device = fake_device(facts, **settings)
    path = prepare_fake(tmp_path / "f.fourfold", device, {"one": [line()], "two": [stepped()]})
    flags = (*STRICT, "-fsanitize=thread")
    program = build_program((*LIBRARY, HERE / "many_threads.c"), flags)
    assert output(program, path, **settings) == "all threads got the right results\n"


def test_program_is_small(tmp_path: Path) -> None:
    sources = [*LIBRARY, *sorted((PLAYER / "command").glob("*.c"))]
    flags = ("-std=c99", "-O2", "-s", "-fvisibility=hidden")
    program = tmp_path / "fourfold-run"
    subprocess.run([compiler(), *flags, *sources, "-o", program, *LINK_FLAGS], check=True)
    assert program.stat().st_size < 150_000
