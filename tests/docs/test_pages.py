"""Pages are whole: nothing is left in them of a merge that was not finished."""

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
