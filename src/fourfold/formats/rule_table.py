"""Tables of rules: modules of a folder fill them, each with functions for some operators or ops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar

R = TypeVar("R")


def load_rules(package: str, path: Iterable[str], table: Mapping[str, R]) -> Mapping[str, R]:
    """A table in the order of names, once all modules of a package have filled it."""
    for info in iter_modules(path):
        import_module(f"{package}.{info.name}")
    return dict(sorted(table.items()))


def register(table: dict[str, R], names: Iterable[str]) -> Callable[[R], R]:
    """A decorator that puts what stands below it into a table, under each of these names."""

    def put(rule: R) -> R:
        table.update(dict.fromkeys(names, rule))
        return rule

    return put


def summary(rule: Callable[..., object]) -> str:
    """What users are shown of a rule: the first line of its docstring."""
    return (rule.__doc__ or "").strip().split("\n")[0]
