"""Pages contain no merge conflict markers, and decisions have unique numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs.blocks import ROOT
from docs.test_links import PAGES

MARKS = re.compile(r"^(<{7}|={7}|>{7})( |$)", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_have_no_merge_conflict_markers(page: Path) -> None:
    assert not MARKS.search(page.read_text(encoding="utf-8"))


def test_decisions_have_unique_numbers() -> None:
    numbers = [page.name[:3] for page in sorted((ROOT / "docs" / "decisions").glob("*.md"))]
    assert numbers == [f"{number:03}" for number in range(1, len(numbers) + 1)]
