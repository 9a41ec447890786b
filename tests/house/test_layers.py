"""Imports point down the list of rooms only, have no cycles, and stand at the top of the file."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter

import pytest
from house.source import FUNCTIONS, Module, imported, modules

ROOMS = (
    "version",
    "lazy",
    "errors",
    "display",
    "progress",
    "forks",
    "types",
    "metadata",
    "resampling",
    "pixels",
    "pictures",
    "processing",
    "custom",
    "device",
    "packages",
    "targets",
    "placement",
    "config",
    "log",
    "timings",
    "trace",
    "options",
    "graph",
    "plan",
    "kernel",
    "op",
    "kernels",
    "ops",
    "formats",
    "samples",
    "postprocess",
    "rewrite",
    "split",
    "lower",
    "store",
    "convert",
    "native",
    "players",
    "tune",
    "cpu",
    "compile",
    "runtime",
    "session",
    "prepare",
    "report",
    "results",
    "quantization",
    "delegate",
    "litert",
    "optimization",
    "capabilities",
    "web",
    "__init__",
    "cli",
    "__main__",
)
# What a room must not know of, though it stands further down the list: rewrites work on graphs of
# any format, lowering and probing see facts of devices and no files, and neither sees the other.
STRANGERS = {
    "rewrite": {"formats", "device", "players"},
    "lower": {"formats", "players", "store"},
    "players": {"formats", "rewrite", "split", "lower"},
}
# The stages from a graph to a plan, and who strings them together; tuning times what it is given.
STAGES = {
    "fourfold.rewrite.rewrite": {"rewrite", "compile"},
    "fourfold.lower.make_plan": {"lower", "compile", "tune"},
    "fourfold.players.probe": {"players", "compile"},
    "fourfold.lower.specialise.has_quantised_steps": {"lower", "compile"},
}
OPTIONAL = {("pictures.py", "PIL")}
# A method of the session opens a tool above it; the tool is imported when the method is called.
LAZY = {("fourfold.session", "fourfold.report.run_report.report")}


def targets(module: Module) -> list[tuple[ast.AST, str]]:
    """The package's own modules that this one imports, each with its statement."""
    known = {other.name for other in modules()}
    found = []
    for node in module.nodes(ast.Import, ast.ImportFrom):
        for name in imported(node):
            name = name if name in known else name.rpartition(".")[0]
            if name in known and name != module.name and (module.name, name) not in LAZY:
                found.append((node, name))
    return found


def room_of(name: str) -> str:
    return next(module.room for module in modules() if module.name == name)


def test_every_room_is_in_the_list() -> None:
    assert {module.room for module in modules()} <= set(ROOMS)


def test_imports_point_down_only() -> None:
    wrong = []
    for module in modules():
        for node, name in targets(module):
            other = room_of(name)
            if other != module.room and ROOMS.index(other) > ROOMS.index(module.room):
                wrong.append(f"{module.at(node)}: {module.room} may not import {name}")
    assert not wrong, "\n".join(wrong)


def test_rooms_do_not_know_their_strangers() -> None:
    wrong = [
        f"{module.at(node)}: {module.room} may not import {name}"
        for module in modules()
        for node, name in targets(module)
        if room_of(name) in STRANGERS.get(module.room, ())
    ]
    assert not wrong, "\n".join(wrong)


def test_only_compile_strings_the_stages_together() -> None:
    wrong = [
        f"{module.at(node)}: {module.room} may not import {name}"
        for module in modules()
        for node in module.nodes(ast.Import, ast.ImportFrom)
        for name in imported(node)
        if module.room not in STAGES.get(name, {module.room})
    ]
    wrong += [
        f"{module.at(node)}: {module.room} may not make KernelOptions"
        for module in modules()
        for node in module.nodes(ast.Call)
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "KernelOptions"
        and module.room not in ("compile", "lower")
    ]
    assert not wrong, "\n".join(wrong)


def test_there_are_no_cycles() -> None:
    graph = {module.name: {name for _, name in targets(module)} for module in modules()}
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


def test_private_names_stay_in_their_room() -> None:
    """What begins with an underscore, module or name, is imported by its own room alone."""
    wrong = []
    for module in modules():
        for node in module.nodes(ast.Import, ast.ImportFrom):
            for name in imported(node):
                package, room, *rest = [*name.split("."), ""]
                private = any(part.startswith("_") and not part.endswith("__") for part in rest)
                if package == "fourfold" and room != module.room and private:
                    wrong.append(f"{module.at(node)}: {name}")
    assert not wrong, "\n".join(wrong)
