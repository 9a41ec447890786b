"""Interactive shells at a terminal: a line is typed, a key is pressed, and the result is read."""

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
TIMEOUT_SECONDS = 60.0
ANSWER = re.compile(rb"<<(.*)>>", re.DOTALL)
ANSWER_KEY = "\x18\x05"  # Ctrl-X Ctrl-E: the shell prints and clears its line
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
    """Return an environment with its own home folder and `fourfold` on its path."""
    command = folder / "bin" / "fourfold"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fourfold "$@"\n')
    command.chmod(0o755)
    path = os.pathsep.join([str(command.parent), os.environ["PATH"]])
    own = {"HOME": str(folder), "ZDOTDIR": str(folder), "XDG_CONFIG_HOME": str(folder / ".config")}
    return {**os.environ, **own, "PATH": path, "PS1": READY, "TERM": "xterm", "LC_ALL": "C.UTF-8"}


class Shell:
    """An interactive shell with completion set up as in the guide."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._read_until(re.compile(re.escape(READY.encode())))

    def complete(self, line: str) -> str:
        """Return the line after a tab."""
        self._press(f"{line}\t{ANSWER_KEY}")
        result = ANSWER.search(self._read_until(ANSWER))
        assert result
        return result.group(1).decode()

    def choices(self, line: str) -> str:
        """Return the output after two tabs, of which the first adds nothing."""
        self._press(f"{line}\t\t{ANSWER_KEY}")
        return self._read_until(ANSWER).decode()

    def _press(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def _read_until(self, pattern: re.Pattern[bytes]) -> bytes:
        text = b""
        while not pattern.search(text):
            ready, _, _ = select.select([self._terminal], [], [], TIMEOUT_SECONDS)
            assert ready, f"the shell said nothing more after {text.decode()!r}"
            text += os.read(self._terminal, 1 << 16)
        return text


@contextmanager
def open_shell(name: str, folder: Path) -> Iterator[Shell]:
    """Open a shell in a folder that contains its settings."""
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
    """Return the completions of fish for each line: words with tab-separated descriptions."""
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
    return [result.split("\n") for result in done.stdout.removesuffix("\n\n").split("\n\n")]
