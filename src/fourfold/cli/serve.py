"""Serve a folder over HTTP to browsers on this machine, to try a page.

The server accepts connections from this machine only. It sends the content types that browsers
expect, and supports range requests, which fourfold.js uses. Ctrl-C stops it.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from fourfold.cli._options import examples
from fourfold.cli._show import echo
from fourfold.export.web.server import FolderServer

EXAMPLES = examples("fourfold serve page", "fourfold serve page --port 9000")


@click.command(help=__doc__, epilog=EXAMPLES)
@click.argument("folder", type=click.Path(path_type=Path), default=".")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="TCP port to listen on; 0 chooses a free one.",
)
def command(folder: Path, port: int) -> None:
    with FolderServer(folder, port) as server:
        echo(f"{folder} is at {server.address} (Ctrl-C ends it)")
        with suppress(KeyboardInterrupt):
            server.serve_forever()
        echo("ended")
