"""The command `fourfold`: one subcommand a file, found by file name, imported when it is used."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from importlib import import_module
from pkgutil import get_data, iter_modules
from typing import TYPE_CHECKING, Any

import click

from fourfold.errors import FourfoldError, InputError
from fourfold.support.lazy import lazy_import
from fourfold.support.log import apply_log_settings
from fourfold.support.log.show import show_log, shown_log

if TYPE_CHECKING:
    from click import shell_completion as completions
    from click.shell_completion import CompletionItem
else:
    completions = lazy_import("click.shell_completion")  # for shells that ask what may follow

VERBOSE, LEVELS = "--verbose", ("info", "debug")
CONVERSIONS = (
    "compiler.convert"  # a model that is converted first lets people wait, and so they are told
)
INTERRUPTED = 130


Error = FourfoldError | click.ClickException


def describe_error(error: Error) -> dict[str, str]:
    """An error as plain data."""
    if isinstance(error, FourfoldError):
        parts = {"what": error.what, "why": error.why, "fix": error.fix}
    else:
        fix = "see the command with --help"
        parts = {"what": error.format_message(), "why": "the command line does not fit", "fix": fix}
    return {"type": type(error).__name__, **parts}


def show(error: Error, as_json: bool) -> None:
    """An error as the command line shows it: three parts in colour, or one JSON object."""
    if as_json:
        click.echo(json.dumps({"error": describe_error(error)}, indent=2))
    elif isinstance(error, click.ClickException):
        error.show()
    else:
        click.secho(_broken(f"error: {error.what}"), fg="red", bold=True, err=True)
        click.secho(_broken(f"  why: {error.why}\n  fix: {error.fix}"), fg="red", err=True)


def _broken(text: str) -> str:
    """Lines that are longer than the terminal is wide, broken between words."""
    if not sys.stderr.isatty():
        return text
    width = max(shutil.get_terminal_size().columns, 20)
    lines = (
        textwrap.wrap(
            line,
            width,
            subsequent_indent=" " * 7,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in text.split("\n")
    )
    return "\n".join("\n".join(line) for line in lines)


def exit_code(error: Error) -> int:
    """2 where the caller must change something, 1 where the model or the machine must."""
    if isinstance(error, click.ClickException):
        return error.exit_code
    return 2 if isinstance(error, InputError) else 1


def count_verbose(context: click.Context, parameter: click.Parameter, count: int) -> None:
    """Notes how often -v was given, before the subcommand or after it."""
    context.meta[VERBOSE] = context.meta.get(VERBOSE, 0) + count
    if context.parent is not None:
        show_verbose(context)


def show_verbose(context: click.Context) -> None:
    """Show as much of the log as is asked for until here."""
    count = context.meta.get(VERBOSE, 0)
    if count:
        show_log(LEVELS[min(count, len(LEVELS)) - 1])


def with_verbose(command: click.Command) -> click.Command:
    """The command with -v, and so are those of a group."""
    if not any(VERBOSE in one.opts for one in command.params):
        option = click.Option(
            ("-v", VERBOSE),
            count=True,
            expose_value=False,
            is_eager=True,
            callback=count_verbose,
            help="Log what happens to standard error; -vv logs each step.",
        )
        command.params.append(option)
        for one in command.commands.values() if isinstance(command, click.Group) else ():
            with_verbose(one)
    return command


def _summary(name: str) -> str:
    """The first paragraph of what a command says of itself; it is not imported for it."""
    text = (get_data(__name__, f"{name}.py") or b"").decode()
    docstring = text.partition('"""')[2].partition('"""')[0]  # to parse all files takes its time
    return " ".join(docstring.partition("\n\n")[0].split())


class Commands(click.Group):
    """Finds commands in this folder; the first paragraph of a docstring stands in the help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(info.name for info in iter_modules(__path__) if not info.name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = import_module(f"{__name__}.{cmd_name}").command
        return with_verbose(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, _summary(name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names of commands without an import of any, and options."""
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [completions.CompletionItem(name, help=_summary(name)) for name in names]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def _prints_json(self, ctx: click.Context) -> bool:
        """Whether --json is what a command prints; of some it is a file to write."""
        command = self.get_command(ctx, ctx.invoked_subcommand or "")
        return command is None or any(one.name == "as_json" for one in command.params)

    def invoke(self, ctx: click.Context) -> Any:
        as_json = "--json" in ctx.args
        try:
            apply_log_settings()
            with shown_log(CONVERSIONS):
                show_verbose(ctx)
                return super().invoke(ctx)
        except (FourfoldError, click.ClickException) as error:
            show(error, as_json and self._prints_json(ctx))
            ctx.exit(exit_code(error))
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="fourfold", message="%(prog)s %(version)s")
def main() -> None:
    """Run neural networks on any GPU."""


with_verbose(main)
