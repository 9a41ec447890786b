"""Every language by name: each folder here with a module `language`; nothing keeps a list."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from fourfold import kernel
from fourfold.errors import DeviceError, nearest
from fourfold.kernel.language import Language


def languages() -> tuple[str, ...]:
    """The names of all languages."""
    folders = [info.name for info in iter_modules(kernel.__path__) if info.ispkg]
    return tuple(name for name in folders if _has_language(name))


def _has_language(folder: str) -> bool:
    """Whether a folder is a language; one that languages share is not."""
    places = (os.path.join(path, folder, "language.py") for path in kernel.__path__)
    return any(map(os.path.isfile, places))


@cache
def find_language(name: str) -> Language:
    """The language of this name: only its folder is imported."""
    if name not in languages():
        why = f"kernels can be written in {', '.join(languages())}"
        raise DeviceError(f"no language is called {name!r}", why, nearest(name, languages()))
    found: Language = import_module(f"{kernel.__name__}.{name}.language").LANGUAGE
    return found
