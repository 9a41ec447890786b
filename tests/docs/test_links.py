"""Links of all pages lead to existing files and headings."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from docs.blocks import ROOT

PAGES = (*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md")))
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)
REMOVED_CHARACTERS = re.compile(r"[^\w\- ]")  # from a heading, in its anchor


def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text(encoding="utf-8"))


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page's headings, in GitHub's form."""
    titles = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", one) for one in HEADING.findall(prose(page)))
    return frozenset(
        REMOVED_CHARACTERS.sub("", title.lower()).replace(" ", "-") for title in titles
    )


def is_dead(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return True
    return bool(anchor) and anchor not in anchors(target)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_existing_targets(page: Path) -> None:
    local = [link for link in LINK.findall(prose(page)) if "://" not in link]
    assert [link for link in local if is_dead(page, link)] == []


def test_detects_dead_links(tmp_path: Path) -> None:
    page, other = tmp_path / "page.md", tmp_path / "other.md"
    page.write_text("# A page\n## `code`, and [more](other.md)\n")
    other.write_text("# Other\n")
    alive = ("other.md", "other.md#other", "#a-page", "#code-and-more")
    dead = ("none.md", "other.md#a-page", "#other")
    assert [link for link in (*alive, *dead) if is_dead(page, link)] == list(dead)


def test_finds_links_in_pages() -> None:
    """Guards against a change of form that would leave nothing to check."""
    linking = {page.name for page in PAGES if LINK.search(prose(page))}
    assert {"README.md", "CONTRIBUTING.md", "performance.md"} <= linking
