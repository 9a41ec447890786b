"""Versions of packages are read without importing them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fourfold.support.packages import describe, installed_version


def test_reads_versions_of_installed_packages() -> None:
    assert installed_version("numpy") == np.__version__
    assert installed_version("no_such_package") is None
    assert describe("no_such_package", "numpy") == f"numpy {np.__version__}"
    assert describe("no_such_package") == "none"


def test_package_without_metadata_has_an_empty_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "abacus").mkdir()
    (tmp_path / "abacus" / "__init__.py").write_text("raise RuntimeError")
    monkeypatch.syspath_prepend(tmp_path)
    assert installed_version("abacus") == ""
    assert describe("abacus") == "abacus"
    (tmp_path / "wooden_abacus-1.2.dist-info").mkdir()
    assert installed_version("abacus", "wooden_abacus") == "1.2"


def test_reading_versions_imports_no_runtime() -> None:
    code = """
import sys
from fourfold.backends.cpu.registry import runtime_versions
runtime_versions()
heavy = ("ai_edge_litert", "tflite_runtime", "onnxruntime", "paddle", "importlib.metadata")
print(*(name for name in heavy if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
