"""State and digest of the sources that plans depend on, independent of the install location."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import cache

from fourfold.store.keys import digest, key_of
from fourfold.store.package import PackageFile, package_files, read_package_file

MAKERS = (
    "",
    "graph",
    "processing",
    "plan",
    "codegen",
    "ops",
    "formats",
    "backends",
    "compiler",
)
ENDINGS = (".py", ".json")


@cache
def sources_state() -> str:
    """Return a text that changes with every change of a source, without reading any: the digest of
    names, sizes and times, and the latest time.
    """
    files = _sources()
    seen = "".join(f"{file.name}:{file.size}:{file.written};" for file in files)
    return f"{digest(seen.encode())}:{max((file.written for file in files), default=0)}"


@cache
def digest_sources() -> tuple[str, int, str]:
    """Return the state of the sources, its time, and the digest of their names and contents."""
    state, seen = sources_state(), time.time_ns()
    contents = {file.name: digest(read_package_file(file)) for file in _sources()}
    return state, seen, key_of(contents)


def _sources() -> list[PackageFile]:
    with suppress(OSError):  # frozen into an executable: only the version counts
        return sorted(package_files(MAKERS, ENDINGS))
    return []
