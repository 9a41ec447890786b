"""The wheel and the source archive contain all that a user needs without a clone."""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("hatchling", reason="hatchling, which builds the package, is not installed")
pytest.importorskip("hatch_fancy_pypi_readme", reason="hatch-fancy-pypi-readme is not installed")

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^)\s]+)\)|\bsrc=\"([^\"]+)\"")
REPORT = "fourfold/tools/report/run_report/template"
# All commands run in one process, because most of their time is startup.
COMMANDS = """
import sys
from click.testing import CliRunner
import fourfold
from fourfold.cli import main

print(fourfold.__file__)
for words in sys.argv[1:]:
    done = CliRunner().invoke(main, words.split())
    assert done.exit_code == 0, done.output
    print(done.output)
"""


def build(kind: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory"]
    subprocess.run([*command, str(folder)], cwd=ROOT, check=True, capture_output=True)
    (result,) = folder.iterdir()
    return result


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return zipfile.ZipFile(build("wheel", tmp_path_factory.mktemp("wheel")))


def test_wheel_contains_data_files(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    assert "fourfold/py.typed" in names
    assert {f"fourfold/cli/completion.{shell}" for shell in ("bash", "fish", "zsh")} <= names
    datasets = ("audioset", "coco", "imagenet", "pascal_voc")
    assert {f"fourfold/vision/class_names/{name}.txt" for name in datasets} <= names
    assert "fourfold/vision/class_names/SOURCES.md" in names
    expected = {
        "fourfold/player_sources": ROOT / "player",
        "fourfold/export/web/player": ROOT / "web" / "src",
        "fourfold/export/web/template": ROOT / "web" / "page",
        REPORT: ROOT / "src" / REPORT,
    }
    for inside, folder in expected.items():
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert files
        assert {f"{inside}/{path.relative_to(folder).as_posix()}" for path in files} <= names
    assert {name.partition("/")[0] for name in names} == {"fourfold", dist_info(wheel)}


def dist_info(wheel: zipfile.ZipFile) -> str:
    return next(name.partition("/")[0] for name in wheel.namelist() if ".dist-info/" in name)


def test_package_description_has_absolute_links(wheel: zipfile.ZipFile) -> None:
    metadata = email.message_from_bytes(wheel.read(f"{dist_info(wheel)}/METADATA"))
    assert metadata["Description-Content-Type"] == "text/markdown"
    links = [one or other for one, other in LINK.findall(metadata.get_payload())]
    assert len(links) > 10
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert f"/v{metadata['Version']}/docs/start.md" in metadata.get_payload()
    assert any("Documentation" in url for url in metadata.get_all("Project-URL"))


def test_extra_all_contains_only_small_packages(wheel: zipfile.ZipFile) -> None:
    metadata = email.message_from_bytes(wheel.read(f"{dist_info(wheel)}/METADATA"))
    needed = [text.split(";") for text in metadata.get_all("Requires-Dist")]
    requirements = {words[0] for words in needed if "extra == 'all'" in words[-1]}
    assert any(name.startswith("onnxruntime") for name in requirements)
    assert not any(
        name.startswith(("tensorflow", "torch", "paddle", "pytest")) for name in requirements
    )


@pytest.mark.needs_device
def test_wheel_runs_without_a_clone(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "site")
    commands = (
        "--help",
        "sample colors",
        "run colors.tflite",
        "player sources player",
        "web colors.tflite -o page",
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, *commands],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path / "site"))
    assert "shares" in done.stdout
    assert list((tmp_path / "player").glob("*.c"))
    assert (tmp_path / "page" / "index.html").is_file()


def test_source_archive_contains_build_and_test_files(tmp_path: Path) -> None:
    with tarfile.open(build("sdist", tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    expected = ("README.md", "LICENSE", "Makefile", "mkdocs.yml", "src/fourfold/py.typed")
    expected += ("player/command/run.c", "web/package.json", "tests/conftest.py", "docs/start.md")
    assert [name for name in expected if name not in names] == []
    assert not any("__pycache__" in name or name.startswith(".venv") for name in names)
