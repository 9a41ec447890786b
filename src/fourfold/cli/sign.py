"""Sign prepared files with an Ed25519 key, or create such a key.

A signed file opens with trust='signed:KEY', where KEY is the public key that this command prints.
"""

from __future__ import annotations

from pathlib import Path

import click

from fourfold.cli._options import examples, json_option
from fourfold.cli._show import show_json, show_line
from fourfold.errors import InputError
from fourfold.store.signature import create_key, sign_file

EXAMPLES = examples(
    "fourfold sign --new-key release.key", "fourfold sign app.fourfold --key release.key"
)


@click.command(help=__doc__, epilog=EXAMPLES)
@click.argument("files", nargs=-1, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--key",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the private key to sign with.",
)
@click.option(
    "--new-key",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write a new private key to. Keep it secret.",
)
@json_option
def command(files: tuple[Path, ...], key: Path | None, new_key: Path | None, as_json: bool) -> None:
    if (new_key is None) == (key is None):
        what = "no key is named" if key is None else "two keys are named"
        fix = "pass --key KEY to sign with a key, or --new-key KEY to create one"
        raise InputError(what, "the command signs with one key", fix)
    if key is not None and not files:
        raise InputError("no file is named", "--key signs files", "name a prepared file")
    public = "" if new_key is None else create_key(new_key)
    private = key or new_key
    assert private is not None
    for file in files:
        public = sign_file(file, private)
    if as_json:
        show_json({"files": [str(file) for file in files], "public_key": public})
        return
    if new_key is not None:
        show_line(f"{new_key}: new private key; its public key is {public}")
    for file in files:
        show_line(f"{file}: signed by {public}")
