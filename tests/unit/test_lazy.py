"""A module behind `lazy_import` is imported when something of it is used, and not before."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fourfold.support.lazy import lazy_import


def test_it_waits_for_the_first_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "waiting_module.py").write_text("NUMBER = 37\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = lazy_import("waiting_module")
    assert "waiting_module" not in sys.modules
    assert module.NUMBER == 37
    monkeypatch.setattr(sys.modules["waiting_module"], "NUMBER", 41)
    assert module.NUMBER == 41  # it is the module's own, not what it once was


def test_a_module_that_is_still_imported_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of its import it has the first of its names, afterwards all of them."""
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


def test_what_is_not_there_is_an_error_of_the_import() -> None:
    module = lazy_import("no_such_module_at_all")
    with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all"):
        module.anything  # noqa: B018 - the access is the import
    with pytest.raises(AttributeError):
        lazy_import("math").nothing  # noqa: B018
