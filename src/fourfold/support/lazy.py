"""Lazy imports: modules that most sessions do not need are imported on first use.

if TYPE_CHECKING:
    import logging
else:
    logging = lazy_import("logging")
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _LazyModule:
    __slots__ = ("__dict__", "_name")  # slots are looked up before __dict__

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        module = import_module(self._name)
        # Some modules are used in every run. Sharing the module's dictionary finds attributes
        # without calling this function again; not while another thread, or an import cycle, is
        # still importing it.
        if not getattr(module.__spec__, "_initializing", False):
            self.__dict__ = module.__dict__
        return getattr(module, attribute)


def lazy_import(name: str) -> Any:
    """Return a stand-in for a module, which is imported on the first access to an attribute."""
    return _LazyModule(name)
