"""Which packages are installed, told without importing them: that would take a start seconds."""

from __future__ import annotations

import os
from importlib.machinery import PathFinder

SUFFIX = ".dist-info"


def installed_version(package: str, distribution: str = "") -> str | None:
    """The version that an installer noted beside a package, under the name of what it installed; ''
    where there is no note of it, and None where there is no such package.
    """
    found = PathFinder.find_spec(package)
    places = (found and found.submodule_search_locations) or ()
    for place in places:
        start = f"{distribution or package}-"
        for name in os.listdir(os.path.dirname(place)):
            if name.startswith(start) and name.endswith(SUFFIX):
                return name[len(start) : -len(SUFFIX)]
    return None if found is None else ""


def describe(*packages: str) -> str:
    """The first of these packages that is installed, with its version; 'none' where none is."""
    for package in packages:
        version = installed_version(package)
        if version is not None:
            return f"{package} {version}".strip()
    return "none"
