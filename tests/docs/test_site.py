"""The documentation site: its list of pages, and a reference with every public name."""

from __future__ import annotations

import re

from docs.blocks import ROOT

import fourfold

LISTED = re.compile(r"^ +- ([\w/-]+\.md)$", re.MULTILINE)
MODULES = ["processing", "vision"]  # imported by name
DESCRIBED = re.compile(r"^::: fourfold\.(\w+)$", re.MULTILINE)
ADDRESS = re.compile(r"https://github\.com/[\w-]+/[\w-]+")


def test_listed_pages_exist_once() -> None:
    pages = LISTED.findall((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert len(pages) == len(set(pages)) > 40
    assert [page for page in pages if not (ROOT / "docs" / page).is_file()] == []


def test_every_public_name_is_documented_once() -> None:
    pages = sorted((ROOT / "docs" / "reference").glob("*.md"))
    names = [name for page in pages for name in DESCRIBED.findall(page.read_text(encoding="utf-8"))]
    assert sorted(names) == sorted([*fourfold.__all__, *MODULES])


def test_repository_address_is_consistent() -> None:
    files = (ROOT / "pyproject.toml", ROOT / "mkdocs.yml")
    results = {one for file in files for one in ADDRESS.findall(file.read_text(encoding="utf-8"))}
    assert len(results) == 1
