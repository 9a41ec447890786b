"""Which CPU engine runs what stays behind is the format's business: nobody else names one."""

from __future__ import annotations

import ast

from house.source import Module, imported, modules

from fourfold.backends.cpu.registry import engine_names
from fourfold.plan.targets import GPU, NUMPY

# An engine itself, the formats that name one, and fourfold inside LiteRT, which is about LiteRT.
AT_HOME = (
    "backends/cpu/",
    "formats/onnx/",
    "formats/paddle/",
    "formats/tflite/",
    "integrations/delegate/",
    "litert.py",
)


def names_of_runtimes() -> set[str]:
    return {*engine_names()} - {NUMPY}


def others() -> list[Module]:
    return [module for module in modules() if not module.path.startswith(AT_HOME)]


def test_there_are_engines() -> None:
    assert {NUMPY, "litert"} <= {*engine_names()}
    assert GPU not in engine_names()


def test_nobody_else_imports_an_engine() -> None:
    runtimes = tuple(f"fourfold.backends.cpu.{name}" for name in names_of_runtimes())
    wrong = [
        f"{module.at(node)}: {name}"
        for module in others()
        for node in module.nodes(ast.Import, ast.ImportFrom)
        for name in imported(node)
        if name.startswith(runtimes)
    ]
    assert not wrong, "\n".join(wrong)


def test_nobody_else_spells_the_name_of_an_engine() -> None:
    wrong = [
        f"{module.at(node)}: {node.value!r}"
        for module in others()
        for node in module.nodes(ast.Constant)
        if isinstance(node, ast.Constant) and node.value in names_of_runtimes()
    ]
    assert not wrong, "\n".join(wrong)
