"""Find installed packages without importing them, which could take seconds."""

from __future__ import annotations

import os
from importlib.machinery import PathFinder

SUFFIX = ".dist-info"


def installed_version(package: str, *distributions: str) -> str | None:
    """Return the installed version of a package; '' if unknown, None if it is not installed.

    The version is read from the name of the `.dist-info` folder of the first of `distributions`, or
    of the package itself.
    """
    note = find_metadata_file(package, *distributions)
    if note is None:
        return None
    name = os.path.basename(os.path.dirname(note))
    return name.removesuffix(SUFFIX).partition("-")[2] if name.endswith(SUFFIX) else ""


def find_metadata_file(package: str, *distributions: str) -> str | None:
    """Return the metadata file of an installed package, which changes with the version.

    Falls back to the package's own first file if there is no metadata; None if it is not installed.
    """
    spec = PathFinder.find_spec(package)
    if spec is None:
        return None
    starts = tuple(f"{distribution}-" for distribution in distributions or (package,))
    for folder in spec.submodule_search_locations or ():
        parent = os.path.dirname(folder)
        for name in sorted(os.listdir(parent)):
            if name.startswith(starts) and name.endswith(SUFFIX):
                return os.path.join(parent, name, "METADATA")
    return spec.origin or ""


def find_package_file(package: str, path: str) -> str | None:
    """Return a file inside an installed package; None if the package or the file does not exist."""
    spec = PathFinder.find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or ():
        file = os.path.join(folder, path)
        if os.path.isfile(file):
            return file
    return None


def describe(*packages: str) -> str:
    """Return the first of these packages that is installed, with its version; 'none' if none is."""
    for package in packages:
        version = installed_version(package)
        if version is not None:
            return f"{package} {version}".strip()
    return "none"
