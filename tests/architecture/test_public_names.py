"""The public names are listed in `__all__`, few, and importable."""

from __future__ import annotations

from types import ModuleType

import fourfold

REQUIRED = {"Session", "devices", "FourfoldError"}


def test_all_is_short_and_has_no_duplicates() -> None:
    names = list(fourfold.__all__)
    assert len(names) == len(set(names)) <= 26
    assert set(names) >= REQUIRED


def test_every_listed_name_is_importable() -> None:
    assert [name for name in fourfold.__all__ if not hasattr(fourfold, name)] == []


def test_no_other_name_is_public() -> None:
    public = {
        name
        for name, item in vars(fourfold).items()
        if not name.startswith("_") and not isinstance(item, ModuleType)
    }
    public -= {"annotations", "TYPE_CHECKING"}
    assert public <= set(fourfold.__all__)
