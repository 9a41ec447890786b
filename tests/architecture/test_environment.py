"""Only config.py reads the environment, and only cli/ prints."""

from __future__ import annotations

import ast

from architecture.source import imported_names, modules

ENVIRONMENT_FUNCTIONS = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}
TERMINAL_FUNCTIONS = {"print", "input"}


def test_only_config_reads_the_environment() -> None:
    violations = []
    for module in modules():
        if module.path == "config.py":
            continue
        for node in ast.walk(module.tree):
            imports = {
                name
                for name in imported_names(node)
                if name in {f"os.{one}" for one in ENVIRONMENT_FUNCTIONS}
            }
            if imports or (isinstance(node, ast.Attribute) and node.attr in ENVIRONMENT_FUNCTIONS):
                violations.append(module.at(node))
    assert not violations, "\n".join(violations)


def test_only_the_cli_prints() -> None:
    violations = [
        module.at(node)
        for module in modules()
        if module.package != "cli"
        for node in module.nodes(ast.Call)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in TERMINAL_FUNCTIONS
    ]
    assert not violations, "\n".join(violations)
