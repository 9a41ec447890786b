"""Parsed source of the package, shared by the architecture tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "fourfold"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One file of the package."""

    path: str  # relative to the package, with forward slashes
    name: str  # dotted module name
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @property
    def package(self) -> str:
        """Return the first part of the path: a package, or a top-level module."""
        return self.path.split("/")[0].removesuffix(".py")

    @property
    def is_package(self) -> bool:
        return self.path.endswith("__init__.py")

    def nodes(self, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        return (node for node in ast.walk(self.tree) if isinstance(node, kinds))

    def at(self, node: ast.AST) -> str:
        return f"{self.path}:{getattr(node, 'lineno', 1)}"


@cache
def modules() -> tuple[Module, ...]:
    result = []
    for path in sorted(PACKAGE.rglob("*.py")):
        relative = path.relative_to(PACKAGE)
        parts = relative.with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        name = ".".join(("fourfold", *parts))
        result.append(Module(relative.as_posix(), name, path.read_text(encoding="utf-8")))
    return tuple(result)


def imported_names(node: ast.AST) -> list[str]:
    """Return the dotted names that an import statement imports, with `from` names in full."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []
