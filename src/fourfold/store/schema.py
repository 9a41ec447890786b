"""The tables of the store's database, and the types that rows must have when they are read.

Columns of SQLite accept values of any type. Constraints check numbers when a row is written; strict
tables would do so, too, but older versions of SQLite cannot open them, and environments share a
cache. `typed` checks all values when they are read, because a file may be damaged.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import Any

VERSION = 6
TABLES = (
    """CREATE TABLE entries(
  key TEXT PRIMARY KEY, kind TEXT, title TEXT, parts TEXT, file TEXT,
  size INTEGER, made REAL, used REAL, hits INTEGER, loads INTEGER,
  CHECK((typeof(size), typeof(made), typeof(used), typeof(hits), typeof(loads))
    = ('integer', 'real', 'real', 'integer', 'integer')))""",
    """CREATE TABLE choices(
  device TEXT, key TEXT, choice TEXT, seconds REAL, made REAL, checksum INTEGER, effort INTEGER,
  PRIMARY KEY(device, key),
  CHECK((typeof(seconds), typeof(made), typeof(checksum), typeof(effort))
    = ('real', 'real', 'integer', 'integer'))) WITHOUT ROWID""",
    """CREATE TABLE digests(
  path TEXT PRIMARY KEY, state TEXT, seen INTEGER, digest TEXT,
  CHECK(typeof(seen) = 'integer'))""",
    """CREATE TABLE loading(
  digest TEXT, process TEXT, since REAL, PRIMARY KEY(digest, process),
  CHECK(typeof(since) = 'real'))""",
    """CREATE TABLE quarantine(
  digest TEXT PRIMARY KEY, why TEXT, since REAL,
  CHECK(typeof(since) = 'real'))""",
    "CREATE TABLE loaded(digest TEXT PRIMARY KEY)",
    """CREATE TABLE facts(
  device TEXT, name TEXT, value TEXT, tries INTEGER, checksum INTEGER, PRIMARY KEY(device, name),
  CHECK((typeof(tries), typeof(checksum)) = ('integer', 'integer'))) WITHOUT ROWID""",
)
SCHEMA = ";\n".join((*TABLES, f"PRAGMA user_version = {VERSION}"))


def typed(rows: Iterable[tuple[Any, ...]], *kinds: type | tuple[type, ...]) -> list[Any]:
    """Return the rows whose values have these types, and whose numbers are finite. Others are
    damaged and count as missing.
    """
    return [
        row
        for row in rows
        if len(row) == len(kinds)
        and all(map(isinstance, row, kinds))
        and all(isfinite(value) for value in row if isinstance(value, float))
    ]
