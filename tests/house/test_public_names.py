"""The public names are listed, few, and there."""

from __future__ import annotations

from types import ModuleType

import fourfold

NEEDED = {"Session", "devices", "FourfoldError"}


def test_the_list_is_short_and_has_no_name_twice() -> None:
    names = list(fourfold.__all__)
    assert len(names) == len(set(names)) <= 26
    assert set(names) >= NEEDED


def test_every_listed_name_is_there() -> None:
    assert [name for name in fourfold.__all__ if not hasattr(fourfold, name)] == []


def test_nothing_else_is_public() -> None:
    found = {
        name
        for name, item in vars(fourfold).items()
        if not name.startswith("_") and not isinstance(item, ModuleType)
    }
    found -= {"annotations", "TYPE_CHECKING"}
    assert found <= set(fourfold.__all__)
