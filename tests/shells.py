"""Shells at a terminal: a line is typed, a key is pressed, and the shell says what became of it."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

READY = "ready> "
PATIENCE = 60.0  # seconds
ANSWER = re.compile(rb"<<(.*)>>", re.DOTALL)
ANSWER_KEY = "\x18\x05"  # Ctrl-X Ctrl-E: the shell prints its line, and empties it
STARTS = {
    "bash": """
bind 'set bell-style none' 'set enable-bracketed-paste off'
answer() { printf '<<%s>>' "$READLINE_LINE"; READLINE_LINE=; }
bind -x '"\\C-x\\C-e": answer'
eval "$(fourfold completion bash)"
""",
    "zsh": """
autoload -Uz compinit && compinit -u -D
answer() { zle -I; print -rn -- "<<$BUFFER>>"; BUFFER= }
zle -N answer; bindkey '^X^E' answer; bindkey '^I' complete-word
eval "$(fourfold completion zsh)"
""",
    "zsh with a folder of functions": """
mkdir functions && fourfold completion zsh > functions/_fourfold
fpath=($PWD/functions $fpath)
autoload -Uz compinit && compinit -u -D
answer() { zle -I; print -rn -- "<<$BUFFER>>"; BUFFER= }
zle -N answer; bindkey '^X^E' answer; bindkey '^I' complete-word
""",
}


def install_command(folder: Path) -> dict[str, str]:
    """An environment of a home of its own, with `fourfold` on its path."""
    command = folder / "bin" / "fourfold"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fourfold "$@"\n')
    command.chmod(0o755)
    path = os.pathsep.join([str(command.parent), os.environ["PATH"]])
    own = {"HOME": str(folder), "ZDOTDIR": str(folder), "XDG_CONFIG_HOME": str(folder / ".config")}
    return {**os.environ, **own, "PATH": path, "PS1": READY, "TERM": "xterm", "LC_ALL": "C.UTF-8"}


class Shell:
    """An interactive shell, with completion as the guide says."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._read_until(re.compile(re.escape(READY.encode())))

    def complete(self, line: str) -> str:
        """The line after a tab."""
        self._press(f"{line}\t{ANSWER_KEY}")
        found = ANSWER.search(self._read_until(ANSWER))
        assert found
        return found.group(1).decode()

    def choices(self, line: str) -> str:
        """What is shown after two tabs, of which the first adds nothing."""
        self._press(f"{line}\t\t{ANSWER_KEY}")
        return self._read_until(ANSWER).decode()

    def _press(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def _read_until(self, pattern: re.Pattern[bytes]) -> bytes:
        text = b""
        while not pattern.search(text):
            ready, _, _ = select.select([self._terminal], [], [], PATIENCE)
            assert ready, f"the shell said nothing more after {text.decode()!r}"
            text += os.read(self._terminal, 1 << 16)
        return text


@contextmanager
def open_shell(name: str, folder: Path) -> Iterator[Shell]:
    """A shell in a folder, where its settings are written to."""
    program = name.split()[0]
    environment = install_command(folder)
    (folder / f".{program}rc").write_text(f"PS1='{READY}'\n{STARTS[name]}")
    options = ["--rcfile", str(folder / ".bashrc")] if program == "bash" else ["-d"]
    try:
        terminal, other = pty.openpty()
    except OSError as error:
        pytest.skip(f"this machine has no terminals to open: {error}")
    process = subprocess.Popen(
        [program, *options, "-i"],
        stdin=other,
        stdout=other,
        stderr=other,
        env=environment,
        cwd=folder,
        start_new_session=True,
    )
    os.close(other)
    try:
        yield Shell(terminal)
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def complete_in_fish(folder: Path, lines: list[str]) -> list[list[str]]:
    """What fish offers for each line: words, with a tab and what is said about them."""
    environment = install_command(folder)
    completions = folder / ".config" / "fish" / "completions"
    script = f"""
mkdir -p {completions}
fourfold completion fish > {completions}/fourfold.fish
for line in $argv
    complete -C $line
    echo
end
"""
    words = ["fish", "-c", script, *lines]
    done = subprocess.run(
        words, env=environment, cwd=folder, capture_output=True, text=True, check=True
    )
    assert not done.stderr, done.stderr
    return [found.split("\n") for found in done.stdout.removesuffix("\n\n").split("\n\n")]
