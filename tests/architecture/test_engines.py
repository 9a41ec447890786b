"""Each format names the CPU engine of its fallback operators; no other module names an engine."""

from __future__ import annotations

import ast

from architecture.source import Module, imported_names, modules

from fourfold.backends.cpu.registry import engine_names
from fourfold.plan.targets import GPU, NUMPY

# The engines, the formats that name one, and the LiteRT delegate and its public module.
ALLOWED = (
    "backends/cpu/",
    "formats/onnx/",
    "formats/paddle/",
    "formats/tflite/",
    "integrations/delegate/",
    "litert.py",
)


def runtime_engines() -> set[str]:
    return {*engine_names()} - {NUMPY}


def checked_modules() -> list[Module]:
    return [module for module in modules() if not module.path.startswith(ALLOWED)]


def test_engines_are_registered() -> None:
    assert {NUMPY, "litert"} <= {*engine_names()}
    assert GPU not in engine_names()


def test_no_other_module_imports_an_engine() -> None:
    runtimes = tuple(f"fourfold.backends.cpu.{name}" for name in runtime_engines())
    violations = [
        f"{module.at(node)}: {name}"
        for module in checked_modules()
        for node in module.nodes(ast.Import, ast.ImportFrom)
        for name in imported_names(node)
        if name.startswith(runtimes)
    ]
    assert not violations, "\n".join(violations)


def test_no_other_module_names_an_engine() -> None:
    violations = [
        f"{module.at(node)}: {node.value!r}"
        for module in checked_modules()
        for node in module.nodes(ast.Constant)
        if isinstance(node, ast.Constant) and node.value in runtime_engines()
    ]
    assert not violations, "\n".join(violations)
