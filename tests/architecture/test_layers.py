"""Imports follow the package order, have no cycles, and are at the top of the file."""

from __future__ import annotations

import ast
import re
from graphlib import CycleError, TopologicalSorter

import pytest
from architecture.source import FUNCTIONS, PACKAGE, Module, imported_names, modules

# Packages and top-level modules in pipeline order. Each may import those before it.
PACKAGES = (
    "support",
    "errors",
    "types",
    "config",
    "device",
    "custom",
    "graph",
    "processing",
    "plan",
    "options",
    "codegen",
    "ops",
    "formats",
    "store",
    "backends",
    "compiler",
    "runtime",
    "session",
    "vision",
    "tools",
    "export",
    "integrations",
    "litert",
    "__init__",
    "cli",
    "__main__",
)
# These may import each other, as long as modules form no cycle.
VOCABULARY = ("support", "errors", "types", "config", "device", "custom")
# Import order inside packages with several parts. A package's own modules form the part named like
# the package.
PARTS = {
    "ops": ("ops/base", "ops/kernels", "ops"),
    "backends": ("backends/native", "backends", "backends/cpu"),
    "compiler": (
        "compiler/convert",
        "compiler/postprocess",
        "compiler/rewrite",
        "compiler/partition",
        "compiler/lower",
        "compiler/tune",
        "compiler",
    ),
    "export": ("export/quantize", "export/optimize", "export/web"),
}
# Packages that a part must not import although they come earlier: rewrites work on graphs of any
# format, and lowering and backends see device properties, no files, and not each other.
FORBIDDEN = {
    "compiler/rewrite": {"formats", "device", "backends"},
    "compiler/lower": {"formats", "backends", "store"},
    "backends": {"formats"},
}
# Compiler stages from a graph to a plan, and the parts that may call them. Tuning measures plans.
STAGES = {
    "fourfold.compiler.rewrite.rewrite": {"compiler/rewrite", "compiler"},
    "fourfold.compiler.lower.make_plan": {"compiler/lower", "compiler", "compiler/tune"},
    "fourfold.backends.probe": {"backends", "compiler"},
    "fourfold.compiler.lower.specialise.has_quantised_steps": {"compiler/lower", "compiler"},
}
OPTIONAL = {("processing/pictures.py", "PIL")}
# `Session.report` imports its tool lazily, when the method is called.
LAZY = {("fourfold.session", "fourfold.tools.report.run_report.report")}
# Matches a row of the table of packages in CONTRIBUTING.md.
ROW = re.compile(r"^\| `([a-z_]+)/` \|", re.MULTILINE)


def imported_modules(module: Module) -> list[tuple[ast.AST, Module]]:
    """Return the modules of this package that a module imports, each with its import statement."""
    by_name = {other.name: other for other in modules()}
    result = []
    for node in module.nodes(ast.Import, ast.ImportFrom):
        for name in imported_names(node):
            name = name if name in by_name else name.rpartition(".")[0]
            if name in by_name and name != module.name and (module.name, name) not in LAZY:
                result.append((node, by_name[name]))
    return result


def level(module: Module) -> int:
    """Return the position of a module's package in the order; all vocabulary packages share one."""
    return 0 if module.package in VOCABULARY else PACKAGES.index(module.package)


def part(module: Module) -> str:
    """Return the part of its package that a module belongs to."""
    path = module.path.removesuffix(".py")
    inside = [one for one in PARTS.get(module.package, ()) if f"{path}/".startswith(f"{one}/")]
    return max(inside, key=len, default=module.package)


def test_every_package_has_a_position() -> None:
    assert {module.package for module in modules()} == set(PACKAGES)


def test_package_table_in_contributing_is_complete_and_ordered() -> None:
    text = (PACKAGE.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert ROW.findall(text) == [name for name in PACKAGES if name in folders]


def test_pages_show_the_same_picture_of_the_pipeline() -> None:
    root = PACKAGE.parents[1]
    pages = (root / "CONTRIBUTING.md", root / "docs" / "internals" / "overview.md")
    texts = [page.read_text(encoding="utf-8") for page in pages]
    pictures = {text.partition("```text\n model file")[2].partition("```")[0] for text in texts}
    assert len(pictures) == 1
    assert "formats" in pictures.pop()


def test_imports_follow_the_package_order() -> None:
    violations = [
        f"{module.at(node)}: {module.package} may not import {other.name}"
        for module in modules()
        for node, other in imported_modules(module)
        if level(other) > level(module)
    ]
    assert not violations, "\n".join(violations)


def test_imports_follow_the_part_order() -> None:
    violations = []
    for module in modules():
        order = PARTS.get(module.package, ())
        for node, other in imported_modules(module):
            inside = bool(order) and other.package == module.package
            if inside and order.index(part(other)) > order.index(part(module)):
                violations.append(f"{module.at(node)}: {part(module)} may not import {other.name}")
    assert not violations, "\n".join(violations)


def test_parts_do_not_import_forbidden_packages() -> None:
    violations = [
        f"{module.at(node)}: {part(module)} may not import {other.name}"
        for module in modules()
        for node, other in imported_modules(module)
        if other.package in FORBIDDEN.get(part(module), ())
    ]
    assert not violations, "\n".join(violations)


def test_only_the_compiler_calls_its_stages() -> None:
    violations = [
        f"{module.at(node)}: {part(module)} may not import {name}"
        for module in modules()
        for node in module.nodes(ast.Import, ast.ImportFrom)
        for name in imported_names(node)
        if part(module) not in STAGES.get(name, {part(module)})
    ]
    violations += [
        f"{module.at(node)}: {part(module)} may not construct KernelOptions"
        for module in modules()
        for node in module.nodes(ast.Call)
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "KernelOptions"
        and part(module) not in ("compiler", "compiler/lower")
    ]
    assert not violations, "\n".join(violations)


def test_stages_exist() -> None:
    texts = {module.name: module.text for module in modules()}
    violations = []
    for stage in STAGES:
        name, _, function = stage.rpartition(".")
        if not re.search(rf"\b{function}\b", texts.get(name, "")):
            violations.append(stage)
    assert not violations, "\n".join(violations)


def test_there_are_no_import_cycles() -> None:
    graph = {
        module.name: {other.name for _, other in imported_modules(module)} for module in modules()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_imports_are_absolute() -> None:
    relative = [
        module.at(node)
        for module in modules()
        for node in module.nodes(ast.ImportFrom)
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not relative, "\n".join(relative)


def test_no_import_is_inside_a_function() -> None:
    violations = [
        f"{module.at(node)}: {name}"
        for module in modules()
        for function in module.nodes(*FUNCTIONS)
        for node in ast.walk(function)
        for name in imported_names(node)
        if (module.path, name.split(".")[0]) not in OPTIONAL
    ]
    assert not violations, "\n".join(violations)


def test_private_names_stay_in_their_package() -> None:
    """Names with a leading underscore are imported by their own package only."""
    violations = []
    for module in modules():
        for node in module.nodes(ast.Import, ast.ImportFrom):
            for name in imported_names(node):
                root, package, *remainder = [*name.split("."), ""]
                private = any(one.startswith("_") and not one.endswith("__") for one in remainder)
                if root == "fourfold" and package != module.package and private:
                    violations.append(f"{module.at(node)}: {name}")
    assert not violations, "\n".join(violations)
