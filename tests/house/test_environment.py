"""Only config.py reads the environment; only cli/ speaks to the terminal."""

from __future__ import annotations

import ast

from house.source import imported, modules

READERS = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}
SPEAKERS = {"print", "input"}


def test_only_config_reads_the_environment() -> None:
    wrong = []
    for module in modules():
        if module.path == "config.py":
            continue
        for node in ast.walk(module.tree):
            taken = {name for name in imported(node) if name in {f"os.{one}" for one in READERS}}
            if taken or (isinstance(node, ast.Attribute) and node.attr in READERS):
                wrong.append(module.at(node))
    assert not wrong, "\n".join(wrong)


def test_only_the_command_line_prints() -> None:
    wrong = [
        module.at(node)
        for module in modules()
        if module.package != "cli"
        for node in module.nodes(ast.Call)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in SPEAKERS
    ]
    assert not wrong, "\n".join(wrong)
