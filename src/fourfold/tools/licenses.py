"""Licenses of the installed packages that fourfold depends on, as a table or as an SBOM.

The metadata of the packages is the source, so the result describes this environment.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any

from fourfold.errors import InputError

ROOT = "fourfold"
DEVELOPMENT = ("dev", "docs")  # extras that no user of the package needs
REQUIREMENT = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?")
EXTRA = re.compile(r"""\bextra\s*==\s*['"]([^'"]+)['"]""")
MAX_LICENSE_NAME = 80  # characters; some packages put the whole text into the field
CLASSIFIER = "License :: "
DECLARED = "declared in its metadata"
SPDX_OF_CLASSIFIERS = {
    "MIT License": "MIT",
    "Apache Software License": "Apache-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}


@dataclass(frozen=True)
class License:
    """A license as an SPDX expression, or as another name if `expression` is empty."""

    name: str
    source: str
    expression: str = ""


# Packages whose metadata names no license, with what their files say.
KNOWN = {
    "pocl-binary-distribution": License(
        "MIT AND BSD-3-Clause AND Apache-2.0 WITH LLVM-exception",
        "license files in the wheel: PoCL (MIT), an OpenCL driver for CPUs, with hwloc "
        "(BSD-3-Clause) and LLVM (Apache-2.0 WITH LLVM-exception)",
        "MIT AND BSD-3-Clause AND Apache-2.0 WITH LLVM-exception",
    ),
}


@dataclass(frozen=True)
class Component:
    """An installed package: its license, the extras of fourfold that need it ('' is always), and
    the installed packages that it needs.
    """

    name: str
    version: str
    license: License
    extras: tuple[str, ...]
    needs: tuple[str, ...]

    @property
    def address(self) -> str:
        """Return the package URL."""
        return f"pkg:pypi/{self.name}@{self.version}"


def list_components(development: bool = False) -> list[Component]:
    """Return fourfold and all installed packages that it depends on, fourfold first."""
    root = _find(ROOT)
    if root is None:
        why = "its metadata is missing, as in a zip archive or a frozen program"
        raise InputError("the dependencies of fourfold are unknown", why, "install it with pip")
    extras: dict[str, set[str]] = {}
    for extra in ("", *_fields(root, "Provides-Extra")):
        if development or extra not in DEVELOPMENT:
            for name in _closure(ROOT, {extra}):
                extras.setdefault(name, set()).add(extra)
    names = [ROOT, *sorted(extras.keys() - {ROOT})]
    return [_component(name, extras.get(name, {""}), extras) for name in names]


def _component(name: str, extras: set[str], listed: dict[str, set[str]]) -> Component:
    found = distribution(name)
    own = {""} if name != ROOT else {"", *(extra for some in listed.values() for extra in some)}
    needs = {need for need, _ in _needs(found, own)} & listed.keys() - {name}
    always = ("",) if "" in extras else tuple(sorted(extras))
    return Component(name, found.version, find_license(found), always, tuple(sorted(needs)))


def _closure(name: str, extras: set[str]) -> set[str]:
    """Return the installed packages that a package with some extras needs, directly or not."""
    pending, seen = [(name, frozenset(extras))], set()
    while pending:
        this, wanted = pending.pop()
        found = _find(this)
        if found is None or (this, wanted) in seen:
            continue
        seen.add((this, wanted))
        pending.extend(_needs(found, {"", *wanted} if this != ROOT else {*wanted}))
    return {this for this, _ in seen} - {ROOT}


def _needs(found: Distribution, extras: set[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the names and extras of the packages that a package with some extras requires."""
    for line in found.requires or ():
        requirement, _, marker = line.partition(";")
        match, extra = REQUIREMENT.match(requirement), EXTRA.search(marker)
        if match is not None and (extra[1] if extra else "") in extras:
            others = (one.strip() for one in (match[2] or "").split(","))
            yield _normal(match[1]), frozenset(filter(None, others))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _find(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None  # needed on another system, or an extra that is not installed


def find_license(found: Distribution) -> License:
    """Return the license that a package's metadata names, or the first line of its text."""
    expression = _field(found, "License-Expression")
    if expression:
        return License(expression, DECLARED, expression)
    prefixed = [one for one in _fields(found, "Classifier") if one.startswith(CLASSIFIER)]
    classified = [one.rpartition(" :: ")[2] for one in prefixed]
    if len(classified) == 1 and classified[0] in SPDX_OF_CLASSIFIERS:
        spdx = SPDX_OF_CLASSIFIERS[classified[0]]
        return License(spdx, DECLARED, spdx)
    text = _field(found, "License")
    if text and "\n" not in text and len(text) <= MAX_LICENSE_NAME:
        return License(text, DECLARED)
    if classified:
        return License(", ".join(classified), DECLARED)
    if (known := KNOWN.get(_normal(found.metadata["Name"]))) is not None:
        return known
    return _license_of_text(found, text)


def _license_of_text(found: Distribution, text: str) -> License:
    files = _fields(found, "License-File")
    for file in files:
        text = text or found.read_text(f"licenses/{file}") or found.read_text(file) or ""
    title = text.strip().partition("\n")[0].strip()
    if "License" in title and len(title) <= MAX_LICENSE_NAME:
        return License(title, "first line of its license text")
    return License("not named", f"see {', '.join(files)}" if files else "no license file")


def _field(found: Distribution, name: str) -> str:
    return next(iter(_fields(found, name)), "").strip()


def _fields(found: Distribution, name: str) -> list[str]:
    return found.metadata.get_all(name) or []


def make_sbom(components: list[Component]) -> dict[str, Any]:
    """Return a software bill of materials in CycloneDX's JSON format."""
    root, *others = components
    addresses = {one.name: one.address for one in components}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid4()}",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "component": _sbom_component(root),
        },
        "components": [_sbom_component(one) for one in others],
        "dependencies": [
            {"ref": one.address, "dependsOn": [addresses[name] for name in one.needs]}
            for one in components
        ],
    }


def _sbom_component(one: Component) -> dict[str, Any]:
    has_expression = bool(one.license.expression)
    choice: dict[str, Any] = (
        {"expression": one.license.expression}
        if has_expression
        else {"license": {"name": one.license.name}}
    )
    return {
        "type": "library",
        "bom-ref": one.address,
        "name": one.name,
        "version": one.version,
        "purl": one.address,
        "licenses": [choice],
    }
