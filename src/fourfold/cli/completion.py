"""Print a script for shell completion of commands, options, devices and models.

\b
bash, in ~/.bashrc:
  eval "$(fourfold completion bash)"
zsh, in ~/.zshrc, after compinit:
  eval "$(fourfold completion zsh)"
fish, once:
  fourfold completion fish \\
    > ~/.config/fish/completions/fourfold.fish
"""

from __future__ import annotations

import sys
from pkgutil import get_data

import click

from fourfold.cli._completing import complete_line
from fourfold.cli._show import echo

INSTALLING = {
    "bash": """add this line to ~/.bashrc:  eval "$(fourfold completion bash)\"""",
    "zsh": """add this line to ~/.zshrc, after compinit:  eval "$(fourfold completion zsh)\"""",
    "fish": "write it to ~/.config/fish/completions/fourfold.fish",
}


@click.command(help=__doc__)
@click.argument("shell", type=click.Choice(tuple(INSTALLING)))
@click.option("--line", hidden=True, help="List completions of this command line.")
def command(shell: str, line: str | None) -> None:
    if line is not None:
        echo(complete_line(click.get_current_context().find_root().command, line))
        return
    script = get_data(__name__, f"completion.{shell}") or b""
    echo(script.decode(), nl=False)
    if sys.stdout.isatty():
        echo(f"# to use it, {INSTALLING[shell]}", err=True)
