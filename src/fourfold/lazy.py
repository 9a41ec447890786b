"""Modules that most starts do without: imported when something of them is first used.

if TYPE_CHECKING:
    import logging
else:
    logging = lazy_import("logging")
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


class _LazyModule:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        # Some are used in every run: to find one that is there, `import_module` takes its time.
        # What another thread still imports is waited for.
        module = sys.modules.get(self._name)
        if module is None or getattr(module.__spec__, "_initializing", False):
            module = import_module(self._name)
        return getattr(module, attribute)


def lazy_import(name: str) -> Any:
    """Stands for a module, whose import waits until one of its attributes is asked for."""
    return _LazyModule(name)
