"""The player's files and functions stay small, begin with a sentence, and depend on little."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from c_player.build import PLAYER

FILE, FUNCTION = 450, 50
FILES = sorted(PLAYER.rglob("*.[ch]"))
BODY = re.compile(r"^[a-z][^\n;]*(?:\n[^\n;{}]*)*? \{\n.*?^\}", re.MULTILINE | re.DOTALL)
SYSTEM = re.compile(r"#include <(.*?)>")
PORTABLE = {
    *("ctype.h", "errno.h", "locale.h", "math.h", "stdarg.h", "stddef.h", "stdint.h", "stdio.h"),
    *("stdlib.h", "string.h"),
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_are_short_and_begin_with_a_sentence(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.match(r"/\* [A-Za-z][^*]*[.:]", text)
    assert len(text.splitlines()) <= FILE
    long = [
        found[0].splitlines()[0]
        for found in BODY.finditer(text)
        if found[0].count("\n") >= FUNCTION
    ]
    assert long == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_only_the_platform_s_files_know_the_system(path: Path) -> None:
    if not path.name.startswith("platform_"):
        assert set(SYSTEM.findall(path.read_text(encoding="utf-8"))) <= PORTABLE


def test_functions_are_found() -> None:
    found = [one[0] for path in FILES for one in BODY.finditer(path.read_text(encoding="utf-8"))]
    assert len(found) > 150
    assert any(one.startswith("ff_status ff_run(") for one in found)
