"""Imports follow the order of the packages, have no cycles, and stand at the top of the file."""

from __future__ import annotations

import ast
import re
from graphlib import CycleError, TopologicalSorter

import pytest
from house.source import FUNCTIONS, PACKAGE, Module, imported, modules

# The packages in pipeline order, and the modules beside them. Each may import those before it.
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
    "tools",
    "vision",
    "export",
    "integrations",
    "litert",
    "__init__",
    "cli",
    "__main__",
)
# These may import each other, as long as no two modules do.
VOCABULARY = ("support", "errors", "types", "config", "device", "custom")
# The order inside packages of several parts; a package's own modules are the part of its name.
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
# What a part must not import, though it stands earlier: rewriting works on graphs of any format,
# lowering and backends see facts of devices and no files, and neither sees the other.
FORBIDDEN = {
    "compiler/rewrite": {"formats", "device", "backends"},
    "compiler/lower": {"formats", "backends", "store"},
    "backends": {"formats"},
}
# The stages from a graph to a plan, and the parts that may call them; tuning times plans.
STAGES = {
    "fourfold.compiler.rewrite.rewrite": {"compiler/rewrite", "compiler"},
    "fourfold.compiler.lower.make_plan": {"compiler/lower", "compiler", "compiler/tune"},
    "fourfold.backends.probe": {"backends", "compiler"},
    "fourfold.compiler.lower.specialise.has_quantised_steps": {"compiler/lower", "compiler"},
}
OPTIONAL = {("processing/pictures.py", "PIL")}
# `Session.report` opens a tool, which is imported when the method is called.
LAZY = {("fourfold.session", "fourfold.tools.report.run_report.report")}
# A row of the table of packages in CONTRIBUTING.md.
ROW = re.compile(r"^\| `([a-z_]+)/` \|", re.MULTILINE)


def targets(module: Module) -> list[tuple[ast.AST, Module]]:
    """The package's own modules that this one imports, each with its statement."""
    known = {other.name: other for other in modules()}
    found = []
    for node in module.nodes(ast.Import, ast.ImportFrom):
        for name in imported(node):
            name = name if name in known else name.rpartition(".")[0]
            if name in known and name != module.name and (module.name, name) not in LAZY:
                found.append((node, known[name]))
    return found


def level(module: Module) -> int:
    """The place of a module's package in the order; the vocabulary shares one place."""
    return 0 if module.package in VOCABULARY else PACKAGES.index(module.package)


def part(module: Module) -> str:
    """The part of its package that a module belongs to."""
    path = module.path.removesuffix(".py")
    inside = [one for one in PARTS.get(module.package, ()) if f"{path}/".startswith(f"{one}/")]
    return max(inside, key=len, default=module.package)


def test_every_package_is_in_the_list() -> None:
    assert {module.package for module in modules()} == set(PACKAGES)


def test_the_table_of_packages_is_complete_and_in_order() -> None:
    text = (PACKAGE.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert ROW.findall(text) == [name for name in PACKAGES if name in folders]


def test_imports_follow_the_order_of_packages() -> None:
    wrong = [
        f"{module.at(node)}: {module.package} may not import {other.name}"
        for module in modules()
        for node, other in targets(module)
        if level(other) > level(module)
    ]
    assert not wrong, "\n".join(wrong)


def test_imports_follow_the_order_of_parts() -> None:
    wrong = []
    for module in modules():
        order = PARTS.get(module.package, ())
        for node, other in targets(module):
            inside = bool(order) and other.package == module.package
            if inside and order.index(part(other)) > order.index(part(module)):
                wrong.append(f"{module.at(node)}: {part(module)} may not import {other.name}")
    assert not wrong, "\n".join(wrong)


def test_parts_do_not_import_what_is_forbidden() -> None:
    wrong = [
        f"{module.at(node)}: {part(module)} may not import {other.name}"
        for module in modules()
        for node, other in targets(module)
        if other.package in FORBIDDEN.get(part(module), ())
    ]
    assert not wrong, "\n".join(wrong)


def test_only_the_compiler_calls_the_stages() -> None:
    wrong = [
        f"{module.at(node)}: {part(module)} may not import {name}"
        for module in modules()
        for node in module.nodes(ast.Import, ast.ImportFrom)
        for name in imported(node)
        if part(module) not in STAGES.get(name, {part(module)})
    ]
    wrong += [
        f"{module.at(node)}: {part(module)} may not make KernelOptions"
        for module in modules()
        for node in module.nodes(ast.Call)
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "KernelOptions"
        and part(module) not in ("compiler", "compiler/lower")
    ]
    assert not wrong, "\n".join(wrong)


def test_the_stages_exist() -> None:
    texts = {module.name: module.text for module in modules()}
    wrong = []
    for stage in STAGES:
        name, _, function = stage.rpartition(".")
        if not re.search(rf"\b{function}\b", texts.get(name, "")):
            wrong.append(stage)
    assert not wrong, "\n".join(wrong)


def test_there_are_no_cycles() -> None:
    graph = {module.name: {other.name for _, other in targets(module)} for module in modules()}
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


def test_no_import_hides_in_a_function() -> None:
    wrong = [
        f"{module.at(node)}: {name}"
        for module in modules()
        for function in module.nodes(*FUNCTIONS)
        for node in ast.walk(function)
        for name in imported(node)
        if (module.path, name.split(".")[0]) not in OPTIONAL
    ]
    assert not wrong, "\n".join(wrong)


def test_private_names_stay_in_their_package() -> None:
    """A module or name with a leading underscore is imported by its own package only."""
    wrong = []
    for module in modules():
        for node in module.nodes(ast.Import, ast.ImportFrom):
            for name in imported(node):
                root, package, *rest = [*name.split("."), ""]
                private = any(one.startswith("_") and not one.endswith("__") for one in rest)
                if root == "fourfold" and package != module.package and private:
                    wrong.append(f"{module.at(node)}: {name}")
    assert not wrong, "\n".join(wrong)
