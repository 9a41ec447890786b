"""Files, classes and functions named in the documentation exist."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest
from architecture.source import modules
from docs.blocks import ROOT

PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md")))
# Pages about the code; guides also name tensors and models of examples.
INSIDE = [page for page in PAGES if page.parent.name in ("internals", "decisions")]
FOLDERS = ("src", "tests", "docs", "benchmarks", "examples")

FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(r"`([^`]+)`")
# Placeholders in capitals, as in ops/NAME.py, and plain folder names are not checked.
PATH = re.compile(r"[a-z_*][a-z0-9_*./-]*(\.py|\.md|/[a-z0-9_]+/)")
CLASS = re.compile(r"([A-Z][A-Za-z]*[a-z])(?:\.(\w+))?")
FUNCTION = re.compile(r"[a-z_]+_[a-z_]+")  # names of models have digits


def quoted(page: Path) -> list[str]:
    """Return text in backquotes outside of code blocks."""
    return QUOTED.findall(FENCED.sub("", page.read_text(encoding="utf-8")))


@cache
def known_paths() -> list[str]:
    """Return all files and folders with a leading slash, so that path ends can be compared."""
    inside = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))
    return [f"/{path.relative_to(ROOT).as_posix()}" for path in (*ROOT.glob("*"), *inside)]


@cache
def classes() -> dict[str, set[str]]:
    """Return the package's classes with their attributes and methods."""
    results: dict[str, set[str]] = {}
    for module in modules():
        for node in module.nodes(ast.ClassDef):
            assert isinstance(node, ast.ClassDef)
            names = results.setdefault(node.name, set())
            for part in ast.walk(node):
                if isinstance(part, ast.FunctionDef):
                    names.add(part.name)
                elif isinstance(part, ast.AnnAssign | ast.Assign):
                    targets = [part.target] if isinstance(part, ast.AnnAssign) else part.targets
                    names |= {getattr(one, "attr", getattr(one, "id", "")) for one in targets}
    return results


@cache
def words() -> set[str]:
    """Return all names in the package, its tests and its benchmarks."""
    files = (file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py"))
    return {word for file in files for word in re.findall(r"\w+", file.read_text("utf-8"))}


def exists(path: str) -> bool:
    end = f"/{path.rstrip('/')}"
    return any(known.endswith(end) or fnmatch(known, f"*{end}") for known in known_paths())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_exist(page: Path) -> None:
    paths = [word for text in quoted(page) for word in text.split() if PATH.fullmatch(word)]
    assert [path for path in paths if not exists(path)] == []


@pytest.mark.parametrize("page", INSIDE, ids=lambda page: page.stem)
def test_classes_and_functions_exist(page: Path) -> None:
    missing = []
    for text in quoted(page):
        result = CLASS.fullmatch(text)
        if result and result[2] and result[1] in classes():
            missing += [text] if result[2] not in classes()[result[1]] else []
        elif result or FUNCTION.fullmatch(text):
            missing += [text] if not words() >= set(text.split(".")) else []
    assert missing == []


def test_finds_names_in_pages() -> None:
    texts = [text for page in INSIDE for text in quoted(page)]
    assert sum(PATH.fullmatch(text) is not None for text in texts) > 50
    assert sum(CLASS.fullmatch(text) is not None for text in texts) > 20
    assert not exists("compiler/lower/gone.py")
    assert exists("backends/opencl/")
