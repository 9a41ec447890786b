"""The license table and the SBOM list what is installed, with the licenses that packages name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from fourfold.cli import main
from fourfold.errors import InputError
from fourfold.tools import licenses
from fourfold.tools.licenses import Component, list_components, make_sbom

PACKAGES = {
    "fourfold": """License-Expression: Apache-2.0
Provides-Extra: cpu
Provides-Extra: all
Provides-Extra: dev
Requires-Dist: click>=8.1
Requires-Dist: missing; sys_platform == 'nowhere'
Requires-Dist: pocl-binary-distribution>=3; extra == 'cpu'
Requires-Dist: fourfold[cpu]; extra == 'all'
Requires-Dist: checker; extra == "dev"
""",
    "click": (
        "Classifier: License :: OSI Approved :: MIT License\nRequires-Dist: Color.Names[fast] >1\n"
    ),
    "color-names": (
        "License: 3-Clause BSD License\nRequires-Dist: speed; extra == 'fast'\n"
        "Requires-Dist: slowness; extra == 'slow'\n"
    ),
    "speed": "License: MIT License\n        \n        Copyright (c) somebody\n",
    "slowness": "License: MIT\n",
    "pocl-binary-distribution": "",
    "checker": "",
}


@pytest.fixture
def components(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Component]:
    for name, fields in PACKAGES.items():
        folder = tmp_path / f"{name.replace('-', '_')}-1.5.dist-info"
        folder.mkdir()
        head = f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.5\n"
        (folder / "METADATA").write_text(head + fields, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    return {one.name: one for one in list_components()}


def test_lists_installed_dependencies_with_their_extras(components: dict[str, Component]) -> None:
    assert {name: one.extras for name, one in components.items()} == {
        "fourfold": ("",),
        "click": ("",),
        "color-names": ("",),
        "pocl-binary-distribution": ("all", "cpu"),
        "speed": ("",),
    }
    assert next(iter(components)) == "fourfold"
    assert components["fourfold"].needs == ("click", "pocl-binary-distribution")
    assert components["click"].needs == ("color-names",)
    assert "checker" in {one.name for one in list_components(development=True)}


def test_licenses_are_those_that_packages_name(components: dict[str, Component]) -> None:
    names = {name: one.license.name for name, one in components.items()}
    assert names == {
        "fourfold": "Apache-2.0",
        "click": "MIT",
        "color-names": "3-Clause BSD License",
        "speed": "MIT License",
        "pocl-binary-distribution": "MIT AND BSD-3-Clause AND Apache-2.0 WITH LLVM-exception",
    }
    assert "license files in the wheel" in components["pocl-binary-distribution"].license.source
    assert components["speed"].license.source == "first line of its license text"


def test_sbom_has_a_component_for_each_package(components: dict[str, Component]) -> None:
    sbom = make_sbom([*components.values()])
    assert (sbom["bomFormat"], sbom["specVersion"]) == ("CycloneDX", "1.6")
    assert sbom["metadata"]["component"]["purl"] == "pkg:pypi/fourfold@1.5"
    licenses = {one["name"]: one["licenses"] for one in sbom["components"]}
    assert licenses["click"] == [{"expression": "MIT"}]
    assert licenses["color-names"] == [{"license": {"name": "3-Clause BSD License"}}]
    references = {one["bom-ref"] for one in sbom["components"]} | {"pkg:pypi/fourfold@1.5"}
    assert {one["ref"] for one in sbom["dependencies"]} == references
    assert all(references.issuperset(one["dependsOn"]) for one in sbom["dependencies"])


def test_needs_the_metadata_of_fourfold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(licenses, "ROOT", "fourfold-that-is-not-installed")
    with pytest.raises(InputError, match="install it with pip"):
        list_components()


def test_command_writes_an_sbom_of_this_environment(tmp_path: Path) -> None:
    path = tmp_path / "sbom.json"
    for words in ([], ["--json"], ["--sbom", str(path)]):
        result = CliRunner().invoke(main, ["licenses", *words])
        assert result.exit_code == 0, result.output
        assert ("numpy" in result.output) == ("--sbom" not in words)
    assert "numpy" in {one["name"] for one in json.loads(path.read_text())["components"]}
    result = CliRunner().invoke(main, ["licenses", "--sbom", str(tmp_path / "none" / "sbom.json")])
    assert "cannot write" in result.output
