"""The table of platforms is the same everywhere, and claims only what was run."""

from __future__ import annotations

import runpy

import pytest
from docs.blocks import ROOT

PLATFORMS = runpy.run_path(str(ROOT / "docs" / "site" / "platforms.py"))


@pytest.mark.parametrize("name", PLATFORMS["FILES"])
def test_file_has_the_table(name: str) -> None:
    content = (ROOT / name).read_text(encoding="utf-8")
    make, _ = PLATFORMS["FILES"][name]
    assert make() in content, "run python docs/site/platforms.py"
    assert PLATFORMS["updated"](name) == content


def test_every_tested_cell_says_what_was_run() -> None:
    apis, evidence = PLATFORMS["APIS"], PLATFORMS["EVIDENCE"]
    cells = {
        (system, api): cell
        for system, row in PLATFORMS["PLATFORMS"].items()
        for api, cell in zip(apis, row, strict=True)
    }
    untested = {PLATFORMS["UNTESTED"], PLATFORMS["NONE"]}
    assert {place for place, cell in cells.items() if cell not in untested} <= set(evidence)
    assert all(cells[place] != PLATFORMS["NONE"] for place in evidence)


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120
