"""Rule tables, filled by decorated functions in a package's modules, and the rules' exceptions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar

from fourfold.types import DType, TensorType


class Unconvertible(Exception):
    """Raised for an operator that cannot be converted; the reason becomes a refusal."""


class TypeMismatch(Exception):
    """Raised when a type rule rejects the inputs of an op."""

    def __init__(self, op: str, why: str, types: tuple[TensorType | None, ...]) -> None:
        super().__init__(op, why, types)
        self.why = f"{op}: {why}"
        self.only_floats = all(type is None or type.dtype is DType.F32 for type in types)


R = TypeVar("R")


def load_rules(package: str, path: Iterable[str], table: Mapping[str, R]) -> Mapping[str, R]:
    """Import all modules of a package, which fill the table; return it sorted by name."""
    for info in iter_modules(path):
        import_module(f"{package}.{info.name}")
    return dict(sorted(table.items()))


def register(table: dict[str, R], names: Iterable[str]) -> Callable[[R], R]:
    """Return a decorator that adds a function to a table under each of these names."""

    def put(rule: R) -> R:
        table.update(dict.fromkeys(names, rule))
        return rule

    return put


def summary(rule: Callable[..., object]) -> str:
    """Return the first line of a rule's docstring, which is shown to users."""
    return (rule.__doc__ or "").strip().split("\n")[0]
