"""The command `fourfold`. Each subcommand is a file of its name, imported when it is used."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
import textwrap
from importlib import import_module
from pkgutil import get_data, iter_modules
from typing import TYPE_CHECKING, Any

import click

from fourfold.errors import FourfoldError, InputError, close_names
from fourfold.support.display import visible
from fourfold.support.lazy import lazy_import
from fourfold.support.log import apply_log_settings
from fourfold.support.log.show import show_log, shown_log

if TYPE_CHECKING:
    from click import shell_completion as completions
    from click.shell_completion import CompletionItem

    from fourfold.cli import _help as help_texts
else:
    completions = lazy_import("click.shell_completion")  # only shells use it
    help_texts = lazy_import("fourfold.cli._help")

VERBOSE, LEVELS = "--verbose", ("info", "debug")
CONVERSIONS = "compiler.convert"  # log of conversions, always shown because they take long
INTERRUPTED = 130


Error = FourfoldError | click.ClickException
_OPTION_BEFORE = re.compile(r"--[\w-]+ $")
_KEYWORD = re.compile(
    r"""(?<![\w-])(?P<name>[a-z_]+)=(?:['"](?P<text>[^'"]*)['"]|(?P<value>\w+))"""
)


def describe_error(error: Error) -> dict[str, str]:
    """Return an error as plain data."""
    if isinstance(error, FourfoldError):
        parts = {"what": error.what, "why": error.why, "fix": error.fix}
    else:
        why, fix = "the command line is not valid", "see the command's --help"
        parts = {"what": error.format_message(), "why": why, "fix": fix}
    return {"type": type(error).__name__, **parts}


def in_shell_words(text: str, command: click.Command | None) -> str:
    """Return a fix with options as the shell has them: --device auto instead of device='auto'.
    Only options that the command has are replaced, and not values of options, as in
    '--shape input=1,224'.
    """
    options = command.params if command is not None else ()
    flags = {flag[2:].replace("-", "_"): flag for one in options for flag in one.opts}

    def replaced(match: re.Match[str]) -> str:
        flag = flags.get(match["name"])
        if flag is None or _OPTION_BEFORE.search(text, 0, match.start()):
            return match[0]
        value = match["text"] if match["text"] is not None else match["value"]
        return flag if value == "True" else f"{flag} {value}"

    return _KEYWORD.sub(replaced, text)


def show(error: Error, as_json: bool) -> None:
    """Print an error: three parts in colour, or one JSON object."""
    if as_json:
        click.echo(json.dumps({"error": describe_error(error)}, indent=2))
    elif isinstance(error, click.ClickException):
        text = io.StringIO()
        error.show(text)
        click.echo(visible(text.getvalue()), err=True, nl=False)
    else:
        click.secho(_broken(f"error: {error.what}"), fg="red", bold=True, err=True)
        click.secho(_broken(f"  why: {error.why}\n  fix: {error.fix}"), fg="red", err=True)


def _broken(text: str) -> str:
    """Break lines that are wider than the terminal between words; control characters of names in
    them are escaped.
    """
    text = visible(text)
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
    """Return 2 for an error in the caller's input, 1 for one of the model or the machine."""
    if isinstance(error, click.ClickException):
        return error.exit_code
    return 2 if isinstance(error, InputError) else 1


def count_verbose(context: click.Context, parameter: click.Parameter, count: int) -> None:
    """Count -v before and after the subcommand."""
    context.meta[VERBOSE] = context.meta.get(VERBOSE, 0) + count
    if context.parent is not None:
        show_verbose(context)


def show_verbose(context: click.Context) -> None:
    """Show the log at the level that -v requests so far."""
    count = context.meta.get(VERBOSE, 0)
    if count:
        show_log(LEVELS[min(count, len(LEVELS)) - 1])


class CommandContext(click.Context):
    """The context of a subcommand, whose help shows the options in groups."""

    def get_help(self) -> str:
        formatter, command = self.make_formatter(), self.command
        command.format_usage(self, formatter)
        command.format_help_text(self, formatter)
        help_texts.write_options(self, formatter)
        if isinstance(command, click.Group):
            command.format_commands(self, formatter)
        command.format_epilog(self, formatter)
        return formatter.getvalue().rstrip("\n")


def with_grouped_help(command: click.Command) -> click.Command:
    """Show the options of a command, and of the commands of a group, in groups."""
    command.context_class = CommandContext
    for one in command.commands.values() if isinstance(command, click.Group) else ():
        with_grouped_help(one)
    return command


def with_verbose(command: click.Command) -> click.Command:
    """Add -v to a command, and to the commands of a group."""
    if not any(VERBOSE in one.opts for one in command.params):
        option = click.Option(
            ("-v", VERBOSE),
            count=True,
            expose_value=False,
            is_eager=True,
            callback=count_verbose,
            help="Print the log to standard error; -vv prints every step.",
        )
        command.params.append(option)
        for one in command.commands.values() if isinstance(command, click.Group) else ():
            with_verbose(one)
    return command


def _summary(name: str) -> str:
    """Return the first paragraph of a command's docstring without importing the command."""
    text = (get_data(__name__, f"{name}.py") or b"").decode()
    docstring = text.partition('"""')[2].partition('"""')[0]  # faster than parsing all files
    return " ".join(docstring.partition("\n\n")[0].split())


class Commands(click.Group):
    """The commands of this folder, listed with the first paragraphs of their docstrings."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(info.name for info in iter_modules(__path__) if not info.name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = import_module(f"{__name__}.{cmd_name}").command
        return with_grouped_help(with_verbose(command))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; for an unknown one, the error names similar commands."""
        name = args[0]
        if name not in self.list_commands(ctx) and not ctx.resilient_parsing:
            close = close_names(name, self.list_commands(ctx))
            if close:
                known = " or ".join(f"'{one}'" for one in close)
                ctx.fail(f"No such command '{name}'. Did you mean {known}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, _summary(name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names of commands, without importing them, and options."""
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        items = [completions.CompletionItem(name, help=_summary(name)) for name in names]
        return items + click.Command.shell_complete(self, ctx, incomplete)

    def _prints_json(self, ctx: click.Context) -> bool:
        """Return whether --json prints JSON; for some commands it names a file to write."""
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
            if isinstance(error, FourfoldError):
                command = self.get_command(ctx, ctx.invoked_subcommand or "")
                error.fix = in_shell_words(error.fix, command)
            show(error, as_json and self._prints_json(ctx))
            ctx.exit(exit_code(error))
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="fourfold", message="%(prog)s %(version)s")
def main() -> None:
    """Compile neural networks to GPU kernels and run them."""


with_verbose(main)
