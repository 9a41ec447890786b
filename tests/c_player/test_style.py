"""Checks the style of the C player: short files and functions, few system headers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from c_player.build import PLAYER

MAX_FILE_LINES, MAX_FUNCTION_LINES = 450, 50
FILES = sorted(PLAYER.rglob("*.[ch]"))
BODY = re.compile(r"^[a-z][^\n;]*(?:\n[^\n;{}]*)*? \{\n.*?^\}", re.MULTILINE | re.DOTALL)
SYSTEM = re.compile(r"#include <(.*?)>")
PORTABLE = {
    *("ctype.h", "errno.h", "locale.h", "math.h", "stdarg.h", "stddef.h", "stdint.h", "stdio.h"),
    *("stdlib.h", "string.h"),
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_are_short_and_start_with_a_comment(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.match(r"/\* [A-Za-z][^*]*[.:]", text)
    assert len(text.splitlines()) <= MAX_FILE_LINES
    long = [
        found[0].splitlines()[0]
        for found in BODY.finditer(text)
        if found[0].count("\n") >= MAX_FUNCTION_LINES
    ]
    assert long == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_only_platform_files_include_system_headers(path: Path) -> None:
    if not path.name.startswith("platform_"):
        assert set(SYSTEM.findall(path.read_text(encoding="utf-8"))) <= PORTABLE


def test_pattern_finds_functions() -> None:
    functions = [
        one[0] for path in FILES for one in BODY.finditer(path.read_text(encoding="utf-8"))
    ]
    assert len(functions) > 150
    assert any(one.startswith("ff_status ff_run(") for one in functions)
