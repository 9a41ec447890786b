"""Links of all pages lead to files that are there, and to headings that these have."""

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
LEFT_OUT = re.compile(r"[^\w\- ]")  # of a heading, in the name by which it is linked to


def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text(encoding="utf-8"))


@cache
def anchors(page: Path) -> frozenset[str]:
    """The names of a page's headings, as GitHub gives them."""
    titles = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", one) for one in HEADING.findall(prose(page)))
    return frozenset(LEFT_OUT.sub("", title.lower()).replace(" ", "-") for title in titles)


def is_dead(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return True
    return bool(anchor) and anchor not in anchors(target)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    local = [link for link in LINK.findall(prose(page)) if "://" not in link]
    assert [link for link in local if is_dead(page, link)] == []


def test_dead_links_are_found(tmp_path: Path) -> None:
    page, other = tmp_path / "page.md", tmp_path / "other.md"
    page.write_text("# A page\n## `code`, and [more](other.md)\n")
    other.write_text("# Other\n")
    alive = ("other.md", "other.md#other", "#a-page", "#code-and-more")
    dead = ("none.md", "other.md#a-page", "#other")
    assert [link for link in (*alive, *dead) if is_dead(page, link)] == list(dead)


def test_pages_have_links() -> None:
    """So that a change of form does not leave nothing to look at."""
    linking = {page.name for page in PAGES if LINK.search(prose(page))}
    assert {"README.md", "CONTRIBUTING.md", "performance.md"} <= linking
