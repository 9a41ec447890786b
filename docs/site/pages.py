"""Hooks of the documentation site: navigation, repository links, help texts of commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from fourfold.cli import main

# The section to which pages of a folder are appended when the navigation does not list them.
SECTION_FOLDERS = {"Run a model": "guide", "Internals": "internals", "Decisions": "decisions"}
REPOSITORY_LINK = re.compile(
    r"\]\((?:\.\./)+(examples|benchmarks|src|tests|README|CONTRIBUTING|SECURITY)([^)\s]*)\)"
)
FENCE_WORDS = re.compile(r"^```(\w+) [^\n]*$", re.MULTILINE)  # instructions for the tests
COMMANDS_MARKER = "<!-- every command -->"


def on_config(config: Any) -> Any:
    """Append pages that the navigation does not list to the section of their folder."""
    listed = set(_page_names(config.nav))
    _append_unlisted(config.nav, Path(config.docs_dir), listed)
    return config


def _append_unlisted(entries: list[Any], root: Path, listed: set[str]) -> None:
    for entry in entries:
        for title, pages in entry.items() if isinstance(entry, dict) else ():
            if not isinstance(pages, list):
                continue
            _append_unlisted(pages, root, listed)
            if title in SECTION_FOLDERS:
                files = sorted((root / SECTION_FOLDERS[title]).glob("*.md"))
                names = [file.relative_to(root).as_posix() for file in files]
                pages.extend(name for name in names if name not in listed)


def _page_names(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for child in entry if isinstance(entry, list) else entry.values():
            yield from _page_names(child)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Link files outside of `docs/` to the repository, and insert the help texts of commands."""
    repository = config.extra["repository"]
    text = REPOSITORY_LINK.sub(rf"]({repository}/blob/main/\1\2)", markdown)
    text = FENCE_WORDS.sub(r"```\1", text)
    if COMMANDS_MARKER in text:
        text = text.replace(COMMANDS_MARKER, "\n".join(_help_texts()))
    return text


def _help_texts() -> Iterator[str]:
    """The help of each command, as Markdown."""
    with click.Context(main, info_name="fourfold") as root:
        for name in main.list_commands(root):
            command = main.get_command(root, name)
            if command is not None:
                context = command.context_class(command, info_name=name, parent=root)
                yield from _help(command, context)


def _help(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"\n## {context.command_path}\n\n```text\n{context.get_help()}\n```\n"
    if isinstance(command, click.Group):
        for name, subcommand in command.commands.items():
            inner = subcommand.context_class(subcommand, info_name=name, parent=context)
            yield f"\n### {inner.command_path}\n\n```text\n{inner.get_help()}\n```\n"
