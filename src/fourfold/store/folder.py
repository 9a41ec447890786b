"""The cache folder belongs to one user: no other user but the superuser may own or write to it.

The cache holds native code, and a checksum does not tell who wrote it. On Windows, where files have
no numeric owner, the rights that a folder inherits decide.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fourfold.support.lazy import lazy_import
from fourfold.support.log import Log

if TYPE_CHECKING:
    import grp
    import pwd
else:
    grp, pwd = lazy_import("grp"), lazy_import("pwd")

log = Log("store")

SUPERUSER = 0  # may change any file; a cache that it prepared for all users can be read
OWN_FOLDER = "set FOURFOLD_CACHE to a folder that only you can write to"
# Absent on Windows: opening a link there needs rights that other users do not have.
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # a named pipe would block the process


class NotPrivate(OSError):
    """Another user owns a file or folder, or may write to it. `fix` says what to do."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(f"{why}; {fix}")
        self.why, self.fix = why, fix


def check_cache_folder(folder: Path) -> None:
    """Raise NotPrivate if another user may write to the folder; FileNotFoundError if there is
    none.
    """
    _check_rights(str(folder), os.stat(folder))


def create_folder(folder: Path) -> None:
    """Create the folder and missing folders above it, readable only by this user. The superuser
    does not create it inside a folder of another user, who could not use it afterwards.
    """
    if not folder.exists():
        above = next(one for one in folder.absolute().parents if one.exists())
        if sys.platform != "win32" and os.geteuid() == SUPERUSER:
            _check_owner(str(above), os.stat(above))
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_cache_folder(folder)


def private_folder(folder: str | None) -> str | None:
    """Return the folder if it can be used as a cache, and None with a warning if it cannot."""
    if folder is not None:
        try:
            create_folder(Path(folder))
        except OSError as error:
            log.warn_once(unusable(folder, error), about=folder)
            return None
    return folder


def unusable(place: str, error: Exception) -> str:
    """Return the warning that a cache cannot be used."""
    return f"the cache in {place} cannot be used: {error}; continuing without it"


def is_private_file(state: os.stat_result) -> bool:
    """Return whether this is a regular file, without links, that only this user can write to."""
    if not stat.S_ISREG(state.st_mode):
        return False
    try:
        _check_rights("", state)
    except NotPrivate:
        return False
    return True


def open_private(path: str, flags: int) -> int:
    """Open a file of this user, as an `opener` of `open`. Raises NotPrivate for other files."""
    descriptor = os.open(path, flags | NO_FOLLOW | NO_WAIT)
    if not is_private_file(os.fstat(descriptor)):
        os.close(descriptor)
        raise NotPrivate(f"'{path}' is not a file that only this user can write to", "remove it")
    return descriptor


def _check_rights(name: str, state: os.stat_result) -> None:
    if sys.platform == "win32":
        return
    _check_owner(name, state)
    by_group = state.st_mode & stat.S_IWGRP and not _is_own_group(state.st_gid)
    if by_group or state.st_mode & stat.S_IWOTH:
        mode = f"mode {stat.S_IMODE(state.st_mode):04o}"
        raise NotPrivate(
            f"other users can write to '{name}' ({mode}), and a cache contains code that runs",
            f"run chmod go-w '{name}' if its content is yours, or {OWN_FOLDER}",
        )


def _check_owner(name: str, state: os.stat_result) -> None:
    if sys.platform == "win32":
        return
    own = os.geteuid()
    if state.st_uid not in (own, SUPERUSER):
        sudo = "use sudo -H, or " if own == SUPERUSER else ""
        names = f"{_user_name(state.st_uid)}, and this process runs as {_user_name(own)}"
        raise NotPrivate(f"'{name}' belongs to {names}", f"{sudo}{OWN_FOLDER}")


def _user_name(user: int) -> str:
    if sys.platform != "win32":
        try:
            return f"user {pwd.getpwuid(user).pw_name}"
        except KeyError:
            pass  # a container, or a network folder of another machine
    return f"user {user}"


def _is_own_group(group: int) -> bool:
    """Return whether a group has only this user, as many systems create one for every user."""
    if sys.platform == "win32":
        return False
    if hasattr(sys, "getandroidapilevel"):
        return True  # of the app
    try:
        user, own = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return own.gr_gid == user.pw_gid and own.gr_name == user.pw_name and not own.gr_mem
