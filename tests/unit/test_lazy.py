"""A module behind `lazy_import` is imported when something of it is used, and not before."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fourfold.lazy import lazy_import


def test_it_waits_for_the_first_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "waiting_module.py").write_text("NUMBER = 37\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = lazy_import("waiting_module")
    assert "waiting_module" not in sys.modules
    assert module.NUMBER == 37
    monkeypatch.setattr(sys.modules.pop("waiting_module"), "NUMBER", 41)
    assert module.NUMBER == 37  # nothing is remembered but the name


def test_what_is_not_there_is_an_error_of_the_import() -> None:
    module = lazy_import("no_such_module_at_all")
    with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all"):
        module.anything  # noqa: B018 - the access is the import
    with pytest.raises(AttributeError):
        lazy_import("math").nothing  # noqa: B018
