"""Paddle's operators as nodes: one function for each type, found by scanning this folder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from fourfold.formats.paddle.rule import RULES, Rule


@cache
def rules() -> Mapping[str, Rule]:
    """Every rule by the type of operator."""
    for info in iter_modules(__path__):
        import_module(f"{__name__}.{info.name}")
    return dict(sorted(RULES.items()))
