"""Print a script by which a shell completes commands, options, devices and models.

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

import click
from click.shell_completion import get_completion_class

from fourfold.errors import InputError

NAME, VARIABLE = "fourfold", "_FOURFOLD_COMPLETE"
INSTALLING = {
    "bash": """add this line to ~/.bashrc:  eval "$(fourfold completion bash)\"""",
    "zsh": """add this line to ~/.zshrc, after compinit:  eval "$(fourfold completion zsh)\"""",
    "fish": "write it to ~/.config/fish/completions/fourfold.fish",
}


@click.command(help=__doc__)
@click.argument("shell", type=click.Choice(tuple(INSTALLING)))
def command(shell: str) -> None:
    found = get_completion_class(shell)
    if found is None:
        what, why = f"there is no completion for {shell}", "this version of click does not know it"
        raise InputError(what, why, "update it: pip install --upgrade click")
    root = click.get_current_context().find_root().command
    click.echo(found(root, {}, NAME, VARIABLE).source())
    if sys.stdout.isatty():
        click.echo(f"# to use it, {INSTALLING[shell]}", err=True)
