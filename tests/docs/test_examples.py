"""The Python blocks of the README, the tutorial, the guides and some other pages run from top to
bottom.

A block runs if `run` follows its language. `model.tflite`, `animals.tflite`, `detector.tflite`,
`groups.tflite`, `quantized.tflite`, `lstm.tflite` and `yolo.tflite` are small models made here.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from detector_networks import yolo_v5
from docs.blocks import ROOT, blocks
from docs.tiny_model import (
    tiny_described_model,
    tiny_detector,
    tiny_model,
    tiny_quantized_model,
    tiny_second_model,
)
from stateful_models import sequence_lstm

DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", DOCS / "start.md", *(DOCS / "guide").glob("*.md"))
PAGES += (DOCS / "internals" / "interpreter.md",)


@pytest.mark.needs_device
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.tflite").write_bytes(tiny_model())
    (tmp_path / "detector.tflite").write_bytes(tiny_detector())
    (tmp_path / "groups.tflite").write_bytes(tiny_second_model())
    (tmp_path / "quantized.tflite").write_bytes(tiny_quantized_model())
    (tmp_path / "animals.tflite").write_bytes(tiny_described_model())
    (tmp_path / "lstm.tflite").write_bytes(sequence_lstm())
    (tmp_path / "yolo.tflite").write_bytes(yolo_v5())
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": page.stem}
    for block in blocks(page):
        if block.language == "python" and block.words == "run":
            # Leading empty lines make errors name the line of the page.
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)


def test_pages_have_runnable_blocks() -> None:
    runnable = [one for page in PAGES for one in blocks(page) if one.words == "run"]
    assert len(runnable) >= 8


def test_quoted_code_matches_the_source() -> None:
    """A block with `from=FILE` after its language is part of that file."""
    wrong, quoted = [], 0
    for page in sorted(ROOT.glob("docs/**/*.md")):
        for block in blocks(page):
            word, _, path = block.words.partition("=")
            if word == "from":
                quoted += 1
                if block.text not in (ROOT / path).read_text(encoding="utf-8"):
                    wrong.append(f"{page.name}:{block.line} is not in {path} any more")
    assert quoted >= 3
    assert not wrong, "\n".join(wrong)
