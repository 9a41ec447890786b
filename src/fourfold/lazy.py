"""Modules that most starts do without: imported when something of them is first used.

if TYPE_CHECKING:
    import logging
else:
    logging = lazy_import("logging")
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _LazyModule:
    __slots__ = ("__dict__", "_name")  # a slot is found before what the dictionary has

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        module = import_module(self._name)
        # Some are used in every run. From here on attributes are found where the module has them,
        # without this function; not while another thread, or a cycle, is still importing it.
        if not getattr(module.__spec__, "_initializing", False):
            self.__dict__ = module.__dict__
        return getattr(module, attribute)


def lazy_import(name: str) -> Any:
    """Stands for a module, whose import waits until one of its attributes is asked for."""
    return _LazyModule(name)
