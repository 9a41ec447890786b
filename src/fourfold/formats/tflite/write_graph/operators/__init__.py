"""Our ops as TFLite's operators: one function for each op, found by scanning this folder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from fourfold.formats.tflite.write_graph.rule import RULES, WriteRule


@cache
def rules() -> Mapping[str, WriteRule]:
    """Every rule by the op's name."""
    for info in iter_modules(__path__):
        import_module(f"{__name__}.{info.name}")
    return dict(sorted(RULES.items()))
