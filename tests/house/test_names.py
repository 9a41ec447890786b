"""Two things never share a name: a class or a function is found by its name alone."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from house.source import FUNCTIONS, Module, modules

# Files of one kind that a registry finds: each has functions of the same names, and one is reached
# through its file. What a language, an API, a format and a CPU engine have in their folders nobody
# else sees.
BY_FILE = re.compile(r"ops/[a-z0-9_]+\.py")
BY_FOLDER = re.compile(r"(codegen|formats|backends/cpu|backends(?!/(cpu|native)/))/[a-z_]+/")
SAME_THING = {
    "LaunchTimer",  # the protocol, and who follows it
    "Player",
    "devices",  # those of all back ends, and those of one
    "command",  # of each command line
    "main",  # where a process begins
}
TERMS = {
    "Store": {"codegen/statement.py", "store/store.py"},  # a statement of kernels; the store
    "check": {
        "tools/report/check.py",
        "compiler/rewrite/check_graph.py",
    },  # of the public API; of a graph
    # Attributes of an op; what a caller wants of an output.
    "ArgMax": {"ops/arg_max.py", "processing/classes.py"},
    "Softmax": {"ops/softmax.py", "processing/classes.py"},
}


def definitions(module: Module) -> Iterator[tuple[str, bool]]:
    """The public names of a file, and whether each is a class."""
    for node in module.tree.body:
        if isinstance(node, (ast.ClassDef, *FUNCTIONS)) and not node.name.startswith("_"):
            yield node.name, isinstance(node, ast.ClassDef)


def shared_names() -> dict[str, set[str]]:
    places: dict[str, set[str]] = defaultdict(set)
    for module in modules():
        for name, is_class in definitions(module):
            by_file = not is_class and BY_FILE.match(module.path) is not None
            if name not in SAME_THING and not by_file and not BY_FOLDER.match(module.path):
                places[name].add(module.path)
    return {name: paths for name, paths in places.items() if len(paths) > 1}


def test_no_two_things_share_a_name() -> None:
    assert shared_names() == TERMS


def test_what_may_share_a_name_does() -> None:
    """A name that no longer comes twice needs no leave."""
    counts: dict[str, int] = defaultdict(int)
    for module in modules():
        for name, _ in definitions(module):
            counts[name] += 1
    assert [name for name in SAME_THING if counts[name] < 2] == []
