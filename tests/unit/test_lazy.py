"""A module behind `lazy_import` is imported on first use."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fourfold.support.lazy import lazy_import


def test_module_is_imported_on_first_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "waiting_module.py").write_text("NUMBER = 37\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = lazy_import("waiting_module")
    assert "waiting_module" not in sys.modules
    assert module.NUMBER == 37
    monkeypatch.setattr(sys.modules["waiting_module"], "NUMBER", 41)
    assert module.NUMBER == 41  # the current attribute, not a copy


def test_module_in_the_middle_of_its_import_is_looked_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """During its import a module has only its first names, afterwards all of them."""
    text = (
        "from fourfold.support.lazy import lazy_import\n"
        "itself = lazy_import('half_made')\n"
        "FIRST = 11\n"
        "assert itself.FIRST == 11\n"
        "assert 'FIRST' not in vars(itself)\n"
        "LAST = 13\n"
    )
    (tmp_path / "half_made.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    module = lazy_import("half_made")
    assert (module.LAST, module.itself.LAST) == (13, 13)
    assert vars(module) is vars(sys.modules["half_made"])


def test_missing_modules_and_attributes_raise_import_errors() -> None:
    module = lazy_import("no_such_module_at_all")
    with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all"):
        module.anything  # noqa: B018 - the access is the import
    with pytest.raises(AttributeError):
        lazy_import("math").nothing  # noqa: B018
