"""What is kept between runs: plans, binaries and tuned choices, and files made for shipping."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from fourfold.store.entries import LIMIT
from fourfold.store.store import Store

__all__ = ["LIMIT", "Store", "memory_store"]


@cache
def memory_store() -> Store:
    """The one store of this process that leaves no trace."""
    return Store(None)


def folder_store(folder: Path, limit: int = LIMIT) -> Store:
    return Store(folder, limit)
