"""The registry of ops: every module in `fourfold.ops` is found by its file name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from fourfold.ops.base import Op

OPS = "fourfold.ops"


@cache
def registry() -> Mapping[str, Op]:
    """Return all ops by name."""
    folder = import_module(OPS)
    names = [info.name for info in iter_modules(folder.__path__) if not info.ispkg]
    return {name: import_module(f"{OPS}.{name}").OP for name in names}
