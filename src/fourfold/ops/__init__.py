"""One op a file: the registry finds them by file name, so a new op is a new file and no edit
elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from fourfold.op import Op


@cache
def registry() -> Mapping[str, Op]:
    """Every op by name. Files that start with an underscore hold what several ops share."""
    names = [info.name for info in iter_modules(__path__) if not info.name.startswith("_")]
    return {name: import_module(f"{__name__}.{name}").OP for name in names}
