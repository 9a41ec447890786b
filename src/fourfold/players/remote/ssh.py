"""Boards in the network: ssh, with keys and names as the user has set it up."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile

from fourfold.players.remote.link import PATIENCE, Link, find_program, last_line

_INSTALL = "install OpenSSH's client: 'apt install openssh-client'"
_FAILED = 255  # the status of ssh itself, not of what it ran
_REASONS = (
    (
        "permission denied",
        "it lets nobody in without a password",
        "give it your key with 'ssh-copy-id'",
    ),
    (
        "host key verification failed",
        "its key is not known, or has changed",
        "log in by hand once with 'ssh', and look at what it says",
    ),
    ("could not resolve", "its name is not known", "check the name, or put it into ~/.ssh/config"),
    ("timed out", "it does not answer", "check that it is switched on and in the network"),
    ("refused", "it runs no ssh server", "start one there"),
)


class SshLink(Link):
    """A machine by its name. One connection serves all commands."""

    api = "ssh"

    def __init__(self, host: str) -> None:
        super().__init__(host)
        self._sockets: str | None = None

    def shell(self, command: str) -> list[str]:
        return [*self._ssh, "--", self.host, command]

    def push(self, path: str | os.PathLike[str], remote: str) -> None:
        with open(path, "rb") as source:
            done = self.call(self.shell(f"cat > {shlex.quote(remote)}"), source=source.fileno())
        self._check(done.returncode, done.stderr, f"copying {os.path.basename(path)}")

    def pull(self, remote: str, path: str | os.PathLike[str]) -> None:
        with open(path, "wb") as target:
            try:
                done = subprocess.run(
                    self.shell(f"cat {shlex.quote(remote)}"),
                    stdin=subprocess.DEVNULL,
                    stdout=target,
                    stderr=subprocess.PIPE,
                    check=False,
                    timeout=PATIENCE,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                self.lost(str(error))
        self._check(done.returncode, done.stderr.decode(errors="replace"), f"fetching {remote}")

    def _check(self, status: int, said: str, doing: str) -> None:
        if status == _FAILED:
            self.lost(said)
        if status:
            self.fail(doing, said)

    def explain(self, said: str) -> tuple[str, str]:
        text = said.lower()
        found = next(((why, fix) for word, why, fix in _REASONS if word in text), None)
        return found or (last_line(said), f"try 'ssh {self.host}' by hand")

    def close(self) -> None:
        if self._sockets is not None:
            self.call([*self._ssh, "-O", "exit", "--", self.host])
            shutil.rmtree(self._sockets, ignore_errors=True)
            self._sockets = None

    @property
    def _ssh(self) -> tuple[str, ...]:
        """No password is asked for: who waits for a bar would not see the question."""
        if self._sockets is None:
            self._sockets = tempfile.mkdtemp(prefix="fourfold-ssh-")
        shared = ("ControlMaster=auto", f"ControlPath={self._sockets}/%C", "ControlPersist=30")
        options = ("BatchMode=yes", "ConnectTimeout=10", *shared)
        return (ssh_program(), *(word for option in options for word in ("-o", option)))


def ssh_program() -> str:
    return find_program("ssh", (), _INSTALL)
