"""The tables of the store's database, and the types that rows must have when they are read.

Columns of SQLite accept values of any type. Constraints check them when a row is written; strict
tables would do so, too, but older versions of SQLite cannot open them, and environments share a
cache. `typed` checks rows when they are read, because a file may be damaged.
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
  CHECK((typeof(key), typeof(kind), typeof(title), typeof(parts), typeof(file))
    = ('text', 'text', 'text', 'text', 'text')),
  CHECK((typeof(size), typeof(made), typeof(used), typeof(hits), typeof(loads))
    = ('integer', 'real', 'real', 'integer', 'integer')))""",
    """CREATE TABLE choices(
  device TEXT, key TEXT, choice TEXT, seconds REAL, made REAL, checksum INTEGER, effort INTEGER,
  PRIMARY KEY(device, key),
  CHECK((typeof(device), typeof(key), typeof(choice)) = ('text', 'text', 'text')),
  CHECK((typeof(seconds), typeof(made), typeof(checksum), typeof(effort))
    = ('real', 'real', 'integer', 'integer'))) WITHOUT ROWID""",
    """CREATE TABLE digests(
  path TEXT PRIMARY KEY, state TEXT, seen INTEGER, digest TEXT,
  CHECK((typeof(path), typeof(state), typeof(seen), typeof(digest))
    = ('text', 'text', 'integer', 'text')))""",
    """CREATE TABLE loading(
  digest TEXT, process TEXT, since REAL, PRIMARY KEY(digest, process),
  CHECK((typeof(digest), typeof(process), typeof(since)) = ('text', 'text', 'real')))""",
    """CREATE TABLE quarantine(
  digest TEXT PRIMARY KEY, why TEXT, since REAL,
  CHECK((typeof(digest), typeof(why), typeof(since)) = ('text', 'text', 'real')))""",
    "CREATE TABLE loaded(digest TEXT PRIMARY KEY, CHECK(typeof(digest) = 'text'))",
    """CREATE TABLE facts(
  device TEXT, name TEXT, value TEXT, tries INTEGER, checksum INTEGER, PRIMARY KEY(device, name),
  CHECK(typeof(value) IN ('text', 'null')),
  CHECK((typeof(device), typeof(name), typeof(tries), typeof(checksum))
    = ('text', 'text', 'integer', 'integer'))) WITHOUT ROWID""",
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
