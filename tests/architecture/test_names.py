"""Public classes and functions have unique names across the package."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from architecture.source import FUNCTIONS, Module, modules

# Files found by a registry define functions with the same names and are reached through their file.
# Names inside the folder of a language, backend, format or CPU engine are private to it.
BY_FILE = re.compile(r"ops/[a-z0-9_]+\.py")
BY_FOLDER = re.compile(r"(codegen|formats|backends/cpu|backends(?!/(cpu|native)/))/[a-z_]+/")
SHARED_ROLES = {
    "LaunchTimer",  # the protocol and its implementations
    "Player",
    "devices",  # of all backends, and of one
    "command",  # one in each CLI module
    "main",  # process entry points
}
ALLOWED_PAIRS = {
    "check": {
        "tools/report/check.py",
        "compiler/rewrite/check_graph.py",
    },  # of the public API; of a graph
    "Store": {"codegen/statement.py", "store/store.py"},  # kernel statement; cache
    # Attributes of an op; postprocessing of an output.
    "ArgMax": {"ops/arg_max.py", "processing/classes.py"},
    "Softmax": {"ops/softmax.py", "processing/classes.py"},
}


def definitions(module: Module) -> Iterator[tuple[str, bool]]:
    """Yield the public names that a module defines, with True for classes."""
    for node in module.tree.body:
        if isinstance(node, (ast.ClassDef, *FUNCTIONS)) and not node.name.startswith("_"):
            yield node.name, isinstance(node, ast.ClassDef)


def shared_names() -> dict[str, set[str]]:
    definitions_by_name: dict[str, set[str]] = defaultdict(set)
    for module in modules():
        for name, is_class in definitions(module):
            by_file = not is_class and BY_FILE.match(module.path) is not None
            if name not in SHARED_ROLES and not by_file and not BY_FOLDER.match(module.path):
                definitions_by_name[name].add(module.path)
    return {name: paths for name, paths in definitions_by_name.items() if len(paths) > 1}


def test_public_names_are_unique() -> None:
    assert shared_names() == ALLOWED_PAIRS


def test_every_allowed_shared_name_is_still_shared() -> None:
    counts: dict[str, int] = defaultdict(int)
    for module in modules():
        for name, _ in definitions(module):
            counts[name] += 1
    assert [name for name in SHARED_ROLES if counts[name] < 2] == []
