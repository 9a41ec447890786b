"""Errors that are also Python's own, and modules that are imported on first use."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fourfold
from fourfold.errors import MissingFileError


@pytest.mark.parametrize("name", ["missing.tflite", "missing.onnx", "missing.fourfold"])
@pytest.mark.parametrize("cache", [None, "memory"])
def test_a_missing_file_is_a_file_not_found_error(
    tmp_path: Path, name: str, cache: str | None
) -> None:
    with pytest.raises(FileNotFoundError, match="cannot open") as caught:
        fourfold.Session(tmp_path / name, device="cpu", cache=cache)
    assert isinstance(caught.value, fourfold.InputError)
    assert str(tmp_path / name) in caught.value.what


def test_a_missing_file_keeps_its_parts() -> None:
    error = MissingFileError("what", "why", "fix")
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert (one.what, one.why, one.fix) == ("what", "why", "fix")
        assert str(one) == "what\n  why: why\n  fix: fix"


def test_wrong_values_are_value_errors() -> None:
    with pytest.raises(ValueError, match="precision"):
        fourfold.Session(fourfold.sample("colors"), device="cpu", precision="fp8", cache=None)
    session = fourfold.Session(fourfold.sample("colors"), device="cpu", cache=None)
    with pytest.raises(ValueError, match="shape"):
        session.run(np.zeros((2, 3), np.float32))
    session.close()


def test_modules_are_reachable_without_importing_them_first() -> None:
    script = (
        "import sys, fourfold\n"
        "assert not {'fourfold.vision', 'fourfold.litert'} & set(sys.modules)\n"
        "print(fourfold.vision.ask.__name__)\n"
        "print(fourfold.processing.__name__, fourfold.litert.__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["ask", "fourfold.processing", "fourfold.litert"]
