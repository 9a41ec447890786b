"""A fake framework with its own format and a converter that follows orders.

A model is a folder with an order in it, and each conversion is recorded next to it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import invalidate_caches
from pathlib import Path

import pytest

from fourfold import formats
from fourfold.formats import Format, ModelSource
from fourfold.formats.format import Converter, Package
from fourfold.formats.source import files_below

ORDER = "order.txt"
SCRIPT = """
import os
import signal
import subprocess
import sys
import time


def convert(path):
    with open(os.path.join(path, "order.txt")) as file:
        order = file.read()
    note = path + ".runs"
    with open(note, "a") as file:
        file.write(f"{os.getpid()} ")
    if order == "fail":
        raise ValueError("the layer 'dense' is odd\\n\\n  and so is 'conv'")
    if order == "sleep":
        children = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        with open(note, "a") as file:
            file.write(f"{children.pid} ready")
        time.sleep(600)
    if order == "die":
        print("out of memory in pass 7", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if order == "nonsense":
        return b"this is no model"
    with open(os.path.join(path, "weights.bin"), "rb") as file:
        return file.read()
"""


@dataclass(frozen=True)
class FakeFramework:
    """The installed framework and its format."""

    folder: Path
    form: Format

    def write(self, path: Path, order: str, content: bytes = b"") -> Path:
        """Write a model whose conversion follows the order, or returns the content."""
        path.mkdir()
        (path / ORDER).write_text(order)
        (path / "weights.bin").write_bytes(content)
        return path

    def runs(self, path: Path) -> list[str]:
        """Return the processes that converted a model, and their children."""
        note = Path(f"{path}.runs")
        return note.read_text().split() if note.exists() else []

    def install(self, version: str) -> None:
        (self.folder / "abacus").mkdir(exist_ok=True)
        (self.folder / "abacus" / "__init__.py").write_text("raise RuntimeError('no')")
        for old in self.folder.glob("abacus-*.dist-info"):
            (old / "METADATA").unlink()
            old.rmdir()
        note = self.folder / f"abacus-{version}.dist-info"
        note.mkdir()
        (note / "METADATA").write_text(f"Version: {version}\n")
        invalidate_caches()

    def remove(self) -> None:
        (self.folder / "abacus" / "__init__.py").unlink()
        (self.folder / "abacus").rmdir()
        invalidate_caches()


def matches(source: ModelSource) -> bool:
    return source.is_folder and os.path.lexists(os.path.join(source.path or "", ORDER))


def files(source: ModelSource) -> tuple[str, ...]:
    return files_below(source.path or "", f"{source.path}/model")


def fake_framework(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FakeFramework:
    """Install the framework and its format for one test."""
    folder.mkdir()
    (folder / "fake_converter.py").write_text(SCRIPT)
    monkeypatch.syspath_prepend(folder)
    converter = Converter("Fake", ("fake_converter",), "TFLite", "fake", needs=(Package("abacus"),))
    form = Format("Fake", (".fake",), matches, files=files, converter=converter)
    registered = dict(formats.formats())
    monkeypatch.setattr(formats, "formats", lambda: {**registered, "fake": form})
    result = FakeFramework(folder, form)
    result.install("1.0")
    return result
