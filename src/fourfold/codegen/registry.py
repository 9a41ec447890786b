"""Finds languages by name: each folder next to this file with a module `language`."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from fourfold import codegen
from fourfold.codegen.language import Language
from fourfold.errors import DeviceError, nearest


def languages() -> tuple[str, ...]:
    """Return the names of all languages."""
    folders = [info.name for info in iter_modules(codegen.__path__) if info.ispkg]
    return tuple(name for name in folders if _has_language(name))


def _has_language(folder: str) -> bool:
    """Return whether a folder is a language and not code that languages share."""
    paths = (os.path.join(path, folder, "language.py") for path in codegen.__path__)
    return any(map(os.path.isfile, paths))


@cache
def find_language(name: str) -> Language:
    """Import and return a language."""
    if name not in languages():
        why = f"supported languages: {', '.join(languages())}"
        raise DeviceError(f"unknown kernel language {name!r}", why, nearest(name, languages()))
    language: Language = import_module(f"{codegen.__name__}.{name}.language").LANGUAGE
    return language
