"""Which packages are installed, told without importing them: that would take a start seconds."""

from __future__ import annotations

import os
from importlib.machinery import PathFinder

SUFFIX = ".dist-info"


def installed_version(package: str, *distributions: str) -> str | None:
    """The version that an installer noted beside a package, under the name of what it installed,
    which is the package's own or the first of these; '' where there is no note of it, and None
    where there is no such package.
    """
    found = find_note(package, *distributions)
    if found is None:
        return None
    name = os.path.basename(os.path.dirname(found))
    return name.removesuffix(SUFFIX).partition("-")[2] if name.endswith(SUFFIX) else ""


def find_note(package: str, *distributions: str) -> str | None:
    """The file in which an installer noted what it installed, which changes with the version; the
    package's own first file where there is no note, and None where there is no such package.
    """
    found = PathFinder.find_spec(package)
    if found is None:
        return None
    starts = tuple(f"{distribution}-" for distribution in distributions or (package,))
    for place in found.submodule_search_locations or ():
        beside = os.path.dirname(place)
        for name in sorted(os.listdir(beside)):
            if name.startswith(starts) and name.endswith(SUFFIX):
                return os.path.join(beside, name, "METADATA")
    return found.origin or ""


def find_package_file(package: str, path: str) -> str | None:
    """A file inside an installed package; None where there is no such package, or no such file."""
    found = PathFinder.find_spec(package)
    for place in (found and found.submodule_search_locations) or ():
        file = os.path.join(place, path)
        if os.path.isfile(file):
            return file
    return None


def describe(*packages: str) -> str:
    """The first of these packages that is installed, with its version; 'none' where none is."""
    for package in packages:
        version = installed_version(package)
        if version is not None:
            return f"{package} {version}".strip()
    return "none"
