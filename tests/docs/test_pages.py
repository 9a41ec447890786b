"""Pages are whole, with nothing left of a merge, and decisions have numbers of their own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs.blocks import ROOT
from docs.test_links import PAGES

MARKS = re.compile(r"^(<{7}|={7}|>{7})( |$)", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_page_has_two_versions_of_a_line(page: Path) -> None:
    assert not MARKS.search(page.read_text(encoding="utf-8"))


def test_every_decision_has_a_number_of_its_own() -> None:
    numbers = [page.name[:3] for page in sorted((ROOT / "docs" / "decisions").glob("*.md"))]
    assert numbers == [f"{number:03}" for number in range(1, len(numbers) + 1)]
