"""Boards in the network, through ssh with the user's configuration."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile

from fourfold.backends.remote.link import TIMEOUT_S, Link, find_program, last_line

_INSTALL = "install OpenSSH's client: 'apt install openssh-client'"
_FAILED = 255  # status of ssh itself, not of the remote command
_REASONS = (
    (
        "permission denied",
        "it does not accept your key",
        "copy your key with 'ssh-copy-id'",
    ),
    (
        "host key verification failed",
        "its host key is unknown, or has changed",
        "log in once with 'ssh' and follow its instructions",
    ),
    ("could not resolve", "its name is unknown", "check the name, or add it to ~/.ssh/config"),
    (
        "timed out",
        "it does not answer",
        "check that it is switched on and connected to the network",
    ),
    ("refused", "it runs no ssh server", "start one on the machine"),
)


class SshLink(Link):
    """A machine, by its host name. One connection is shared by all commands."""

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
                    timeout=TIMEOUT_S,
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
        reason = next(((why, fix) for word, why, fix in _REASONS if word in text), None)
        return reason or (last_line(said), f"try 'ssh {self.host}' in a terminal")

    def close(self) -> None:
        if self._sockets is not None:
            self.call([*self._ssh, "-O", "exit", "--", self.host])
            shutil.rmtree(self._sockets, ignore_errors=True)
            self._sockets = None

    @property
    def _ssh(self) -> tuple[str, ...]:
        """Command line of ssh, in batch mode: a password prompt would be hidden by a
        progress bar.
        """
        if self._sockets is None:
            self._sockets = tempfile.mkdtemp(prefix="fourfold-ssh-")
        shared = ("ControlMaster=auto", f"ControlPath={self._sockets}/%C", "ControlPersist=30")
        options = ("BatchMode=yes", "ConnectTimeout=10", *shared)
        return (ssh_program(), *(word for option in options for word in ("-o", option)))


def ssh_program() -> str:
    return find_program("ssh", (), _INSTALL)
