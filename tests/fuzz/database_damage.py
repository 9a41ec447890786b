"""Damage the database of a cache in one of many ways, which the case's number determines."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from fourfold.store.database import NAME
from fourfold.store.schema import TABLES

PAGE = 4096
COLUMNS = {
    "entries": "key kind title parts file size made used hits loads",
    "choices": "device key choice seconds made checksum effort",
    "digests": "path state seen digest",
    "loading": "digest process since",
    "quarantine": "digest why since",
    "loaded": "digest",
    "facts": "device name value tries checksum",
}
# SQL expressions of values that a column of any type should not have, or only rarely has.
VALUES = (
    *("NULL", "'x'", "'abc'", "''", "x'00'", "x'ff00ff'", "0", "-1", "1", "9223372036854775807"),
    *("-9223372036854775808", "1e308", "-1e308", "9e999", "-9e999", "0.5", "CAST(x'ff' AS TEXT)"),
    *("'../../x'", "'a' || char(0) || 'b'", "printf('%.*c', 100000, 'x')", "zeroblob(100000)"),
    *("'{}'", "'[]'", "'{\"model\": 1}'", "printf('%.*c', 100000, '[')", "'1:x:2:3:/nowhere'"),
    *("'1:2:3:4:' || char(0)", "'a:99999999999999999999:1'", "'::'", "'binary-' || char(10)"),
)
OBJECTS = (
    "CREATE TRIGGER extra BEFORE INSERT ON entries BEGIN SELECT RAISE(ABORT, 'no'); END",
    "CREATE TRIGGER extra AFTER INSERT ON digests BEGIN DELETE FROM entries; END",
    "CREATE TRIGGER extra AFTER UPDATE ON entries BEGIN UPDATE entries SET file='x'; END",
    "CREATE VIEW extra AS SELECT * FROM entries",
    "CREATE TABLE extra(a)",
    "CREATE INDEX extra ON entries(used)",
    "CREATE UNIQUE INDEX extra ON entries(size)",
)
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n)"

Damage = Callable[[random.Random, Path], None]


def run_sql(path: Path, *statements: str) -> None:
    """Execute statements without the checks of constraints. Statements that fail have no effect."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints=ON")
        connection.execute("PRAGMA writable_schema=ON")
        for statement in statements:
            with suppress(sqlite3.Error):
                connection.execute(statement)


def change_bytes(rng: random.Random, path: Path) -> None:
    data = bytearray(path.read_bytes())
    end = rng.choice((100, PAGE, len(data)))
    for _ in range(rng.choice((1, 1, 2, 4, 16, 64))):
        data[rng.randrange(end)] = rng.choice((0, 1, 2, 127, 128, 255, rng.randrange(256)))
    path.write_bytes(data)


def change_length(rng: random.Random, path: Path) -> None:
    data = path.read_bytes()
    end = rng.randrange(len(data))
    if rng.random() < 0.3:
        data += rng.randbytes(rng.randrange(2 * PAGE))
    else:
        data = data[: end - end % PAGE if rng.random() < 0.5 else end]
    path.write_bytes(data)


def change_pages(rng: random.Random, path: Path) -> None:
    """Swap, repeat, clear or shuffle pages, some of which then form cycles."""
    data = path.read_bytes()
    pages = [data[at : at + PAGE] for at in range(0, len(data), PAGE)]
    for _ in range(rng.randrange(1, 4)):
        here, there = rng.randrange(len(pages)), rng.randrange(1, len(pages))
        filling = (pages[here], bytes(PAGE), rng.randbytes(PAGE))
        pages[there] = rng.choice(filling)
    path.write_bytes(b"".join(pages))


def change_values(rng: random.Random, path: Path) -> None:
    statements = []
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        table = rng.choice(list(COLUMNS))
        column, value = rng.choice(COLUMNS[table].split()), rng.choice(VALUES)
        rows = "" if rng.random() < 0.7 else f" WHERE abs(random()) % {rng.randrange(1, 4)} = 0"
        statements.append(f"UPDATE OR REPLACE {table} SET {column}={value}{rows}")
    run_sql(path, *statements)


def change_schema(rng: random.Random, path: Path) -> None:
    table = rng.choice(list(COLUMNS))
    column = rng.choice(COLUMNS[table].split())
    statement = next(one for one in TABLES if one.startswith(f"CREATE TABLE {table}("))
    loose = statement.partition("CHECK")[0].rstrip(" ,\n") + ")"
    choices = (
        (f"DROP TABLE {table}",),
        (f"ALTER TABLE {table} RENAME TO other",),
        (f"ALTER TABLE {table} RENAME COLUMN {column} TO other",),
        (f"ALTER TABLE {table} ADD COLUMN other",),
        (f"DROP TABLE {table}", loose, f"ALTER TABLE {table} DROP COLUMN {column}"),
        (f"DROP TABLE {table}", f"CREATE TABLE {table}(a)"),
        (f"DROP TABLE {table}", f"CREATE VIEW {table} AS {ENDLESS} SELECT i FROM n"),
        (f"DELETE FROM sqlite_master WHERE tbl_name='{table}' AND type='index'",),
        (f"UPDATE sqlite_master SET rootpage={rng.randrange(-1, 30)} WHERE name='{table}'",),
        (f"UPDATE sqlite_master SET sql={rng.choice(VALUES)} WHERE name='{table}'",),
        (rng.choice(OBJECTS),),
    )
    run_sql(path, *rng.choice(choices))


def change_version(rng: random.Random, path: Path) -> None:
    number = rng.choice((0, 1, -1, 5, 7, 2**31 - 1, -(2**31), rng.randrange(-(2**31), 2**31)))
    run_sql(path, f"PRAGMA user_version = {number}")


def replace_file(rng: random.Random, path: Path) -> None:
    """Replace the database by another file, or by something that is not a file."""
    path.unlink()
    kind = rng.randrange(7)
    if kind == 0:
        run_sql(path, "CREATE TABLE t(a)", f"PRAGMA user_version = {rng.choice((0, 6))}")
    elif kind == 1:
        run_sql(path, "PRAGMA journal_mode=WAL", f"PRAGMA user_version = 6; {TABLES[0]}")
    elif kind == 2:
        path.write_bytes(rng.randbytes(rng.randrange(3 * PAGE)))
    elif kind == 3:
        path.mkdir()
        (path / "file").write_bytes(b"")
    elif kind == 4:
        path.symlink_to(rng.choice(("nowhere", NAME, "/dev/zero", "entries")))
    elif kind == 5 and hasattr(os, "mkfifo"):
        os.mkfifo(path)
    else:
        path.write_bytes(b"SQLite format 3\0" + rng.randbytes(PAGE))


def add_side_file(rng: random.Random, path: Path) -> None:
    """Put a file next to the database that SQLite reads as its journal or write-ahead log."""
    side = path.with_name(path.name + rng.choice(("-journal", "-wal", "-shm")))
    kind = rng.randrange(6)
    if kind == 0:
        side.mkdir()
    elif kind == 1:
        side.symlink_to(rng.choice(("nowhere", "/dev/zero", NAME)))
    elif kind == 2 and hasattr(os, "mkfifo"):
        os.mkfifo(side)
    elif kind == 3:
        side.write_bytes(rng.randbytes(rng.randrange(1, 2 * PAGE)))
    elif kind == 4:
        magic = bytes.fromhex("d9d505f920a163d7") + rng.randbytes(20) + bytes(484)
        side.write_bytes(magic + rng.randbytes(2 * PAGE))
    else:
        _leave_journal(path, side)


def _leave_journal(path: Path, side: Path) -> None:
    """Leave the journal of a transaction that was not finished."""
    journal, content = path.with_name(f"{path.name}-journal"), b""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        with suppress(sqlite3.Error):  # damaged before
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("DELETE FROM entries")
        if journal.exists():
            content = journal.read_bytes()
    side.write_bytes(content)


def share_file(rng: random.Random, path: Path) -> None:
    path.chmod(rng.choice((0o666, 0o622, 0o602, 0o777, 0o000, 0o400)))


DAMAGES: dict[str, tuple[Damage, int]] = {  # with their weights
    "bytes": (change_bytes, 6),
    "length": (change_length, 2),
    "pages": (change_pages, 4),
    "values": (change_values, 8),
    "schema": (change_schema, 4),
    "version": (change_version, 1),
    "file": (replace_file, 2),
    "side file": (add_side_file, 2),
    "mode": (share_file, 1),
}


def damage_database(rng: random.Random, path: Path) -> str:
    """Damage a database once, or sometimes twice; return the names of what was done."""
    names = rng.choices(list(DAMAGES), [weight for _, weight in DAMAGES.values()])
    if rng.random() < 0.2 and names[0] in ("bytes", "pages", "values", "schema"):
        names.append(rng.choice(("bytes", "side file", "mode")))
    for name in names:
        DAMAGES[name][0](rng, path)
    return " and ".join(names)
