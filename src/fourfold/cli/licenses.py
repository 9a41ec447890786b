"""List the licenses of fourfold's installed dependencies, or write an SBOM of them.

The SBOM (software bill of materials) is in CycloneDX's JSON format.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from fourfold.cli._options import examples, json_option
from fourfold.cli._show import show_json, show_line, show_table
from fourfold.errors import InputError
from fourfold.support.display import count_text
from fourfold.tools.licenses import DECLARED, Component, list_components, make_sbom

EXAMPLES = examples("fourfold licenses", "fourfold licenses --sbom fourfold.cdx.json")


@click.command(help=__doc__, epilog=EXAMPLES)
@click.option(
    "--sbom",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write an SBOM to this file.",
)
@click.option("--dev", is_flag=True, help="Include packages that only developers need.")
@json_option
def command(sbom: Path | None, dev: bool, as_json: bool) -> None:
    components = list_components(dev)
    if sbom is not None:
        _write(sbom, components)
    if as_json:
        show_json({"components": [asdict(one) for one in components]})
    elif sbom is not None:
        show_line(f"{count_text(len(components), 'package')} in {sbom}")
    else:
        rows = [
            (one.name, one.version, one.license.name, ", ".join(one.extras) or "always")
            for one in components
        ]
        show_table("", ("package", "version", "license", "needed by extras"), rows)
        for one in components:
            if one.license.source != DECLARED:
                show_line(f"{one.name}: {one.license.source}")


def _write(path: Path, components: list[Component]) -> None:
    text = json.dumps(make_sbom(components), indent=2, ensure_ascii=False) + "\n"
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        fix = "choose a writable path"
        raise InputError(f"cannot write '{path}'", str(error), fix) from error
