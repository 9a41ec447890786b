"""Serve a folder to a browser on this machine, to try a page.

Only programs of this machine reach it. Files come with the types that browsers want, and by range,
as fourfold.js asks for them. Ctrl-C ends it.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from fourfold.export.web.server import FolderServer


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(path_type=Path), default=".")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True)
def command(folder: Path, port: int) -> None:
    with FolderServer(folder, port) as server:
        click.echo(f"{folder} is at {server.address} (Ctrl-C ends it)")
        with suppress(KeyboardInterrupt):
            server.serve_forever()
        click.echo("ended")
