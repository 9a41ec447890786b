"""What the site makes of the pages: links to files of the repository, lists of pages, commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from fourfold.cli import main

FOLDERS = {"Guides": "guide", "How it works": "internals", "Decisions": "decisions"}
OUTSIDE = re.compile(
    r"\]\((?:\.\./)+(examples|benchmarks|src|tests|README|CONTRIBUTING)([^)\s]*)\)"
)
WORDS_BEHIND_LANGUAGE = re.compile(r"^```(\w+) [^\n]*$", re.MULTILINE)  # of tests, not of readers
COMMANDS = "<!-- every command -->"


def on_config(config: Any) -> Any:
    """Pages of a folder that the list leaves out stand at the end of their section."""
    listed = set(_names(config.nav))
    for section in config.nav:
        title = next(iter(section)) if isinstance(section, dict) else ""
        if title in FOLDERS:
            root = Path(config.docs_dir)
            pages = sorted((root / FOLDERS[title]).glob("*.md"))
            names = [page.relative_to(root).as_posix() for page in pages]
            section[title].extend(name for name in names if name not in listed)
    return config


def _names(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    else:
        for below in part if isinstance(part, list) else part.values():
            yield from _names(below)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """The page as the site has it: files that are not part of it are in the repository."""
    repository = config.extra["repository"]
    text = OUTSIDE.sub(rf"]({repository}/blob/main/\1\2)", markdown)
    text = WORDS_BEHIND_LANGUAGE.sub(r"```\1", text)
    return text.replace(COMMANDS, "\n".join(_commands())) if COMMANDS in text else text


def _commands() -> Iterator[str]:
    """The help of each command."""
    with click.Context(main, info_name="fourfold") as whole:
        for name in main.list_commands(whole):
            command = main.get_command(whole, name)
            if command is not None:
                yield from _help(command, click.Context(command, info_name=name, parent=whole))


def _help(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"\n## {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            inner = click.Context(below, info_name=name, parent=context)
            yield f"\n### {inner.command_path}\n\n```text\n{below.get_help(inner)}\n```\n"
