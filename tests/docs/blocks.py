"""The code blocks of a Markdown page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```(\w+)[ \t]*([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, the words after it, its text, and its position."""

    language: str
    words: str
    text: str
    line: int

    @property
    def file(self) -> Path | None:
        """The file that the block represents, given as `file=PATH`."""
        name, _, path = self.words.partition("=")
        return Path(path) if name == "file" else None


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(result[1], result[2].strip(), result[3], text.count("\n", 0, result.start(3)) + 1)
        for result in _BLOCK.finditer(text)
    ]


def write_files(page: Path, folder: Path) -> list[Path]:
    """Write the files that a page shows into a folder, and return their paths inside it."""
    files = {block.file: block.text for block in blocks(page) if block.file is not None}
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return list(files)
