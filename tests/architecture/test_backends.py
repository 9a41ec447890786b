"""Only a backend's own folder imports its GPU API; others use the registry and protocols."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from architecture.source import PACKAGE, Module, imported_names, modules

from fourfold.backends import Backend, backends
from fourfold.backends.cuda.player import Player as CudaPlayer
from fourfold.backends.cuda.timer import LaunchTimer as CudaTimer
from fourfold.backends.opencl.player import Player as OpenCLPlayer
from fourfold.backends.opencl.timer import LaunchTimer as OpenCLTimer
from fourfold.backends.protocol import LaunchTimer, Player
from fourfold.backends.registry import NO_BACKENDS
from fourfold.backends.remote.player import Player as RemotePlayer
from fourfold.backends.remote.timer import LaunchTimer as RemoteTimer
from fourfold.backends.webgpu.player import Player as WebGpuPlayer
from fourfold.backends.webgpu.timer import LaunchTimer as WebGpuTimer

BACKENDS = "fourfold.backends"


def backend_packages() -> list[str]:
    """Return the dotted names of the backend packages."""
    parents = (path.parent for path in Path(PACKAGE / "backends").glob("*/__init__.py"))
    referenced_names = sorted({path.name for path in parents} - {*NO_BACKENDS})
    return [f"{BACKENDS}.{name}" for name in referenced_names]


def referenced_names(module: Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield the imports of a module and its string constants, which may name lazy imports."""
    for node in module.nodes(ast.Import, ast.ImportFrom):
        yield from ((node, name) for name in imported_names(node))
    for node in module.nodes(ast.Constant):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node, node.value


def foreign_imports(module: Module) -> list[str]:
    """List the places where a module names a backend package that it is not part of."""
    return [
        f"{module.at(node)}: {name}"
        for node, name in referenced_names(module)
        for folder in backend_packages()
        if f"{name}.".startswith(f"{folder}.") and not f"{module.name}.".startswith(f"{folder}.")
    ]


def isinstance_types(module: Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield the names in the second argument of each `isinstance` call."""
    for node in module.nodes(ast.Call):
        assert isinstance(node, ast.Call)
        if ast.unparse(node.func) != "isinstance":
            continue
        for inner in ast.walk(node.args[1]):
            if isinstance(inner, ast.Name | ast.Attribute):
                yield node, ast.unparse(inner)


def backend_type_checks(module: Module) -> list[str]:
    """List the places where a module checks the type of a player or backend."""
    backend_names = {
        name.rpartition(".")[2]
        for node in module.nodes(ast.ImportFrom)
        for name in imported_names(node)
        if name.startswith(f"{BACKENDS}.")
    }
    return [
        f"{module.at(node)}: isinstance(..., {name})"
        for node, name in isinstance_types(module)
        if name in backend_names or name.startswith("backends.")
    ]


def test_only_a_backend_imports_its_own_api() -> None:
    assert backend_packages(), "no backend package was found"
    violations = [line for module in modules() for line in foreign_imports(module)]
    assert not violations, "\n".join(violations)


def test_no_module_checks_the_type_of_a_player() -> None:
    outside = [module for module in modules() if not module.path.startswith("backends/")]
    violations = [line for module in outside for line in backend_type_checks(module)]
    assert not violations, "\n".join(violations)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("from fourfold.backends.opencl.player import Player", 1),
        ("import fourfold.backends.opencl", 1),
        ("lazy_import('fourfold.backends.opencl.probe')", 1),
        ("from fourfold.backends import Player\nisinstance(x, Player)", 1),
        ("from fourfold import backends\nisinstance(x, (int, backends.Backend))", 1),
        ("from fourfold.backends import Player\nisinstance(x, int)", 0),
        ("name = 'opencl'", 0),
    ],
)
def test_detects_imports_and_type_checks_of_backends(text: str, count: int) -> None:
    module = Module("runtime/made_up.py", "fourfold.runtime.made_up", text)
    assert len(foreign_imports(module)) + len(backend_type_checks(module)) == count


def methods(protocol: type) -> set[str]:
    return {name for name in vars(protocol) if not name.startswith("_")}


@pytest.mark.parametrize("name", sorted(backends()))
def test_every_backend_implements_the_protocol(name: str) -> None:
    backend = backends()[name]
    assert backend.name == name
    required = methods(Backend) | {"name", "listed"}
    assert {one for one in required if not hasattr(backend, one)} == set()


@pytest.mark.parametrize(
    ("implementation", "protocol"),
    [
        (OpenCLPlayer, Player),
        (OpenCLTimer, LaunchTimer),
        (CudaPlayer, Player),
        (CudaTimer, LaunchTimer),
        (RemotePlayer, Player),
        (RemoteTimer, LaunchTimer),
        (WebGpuPlayer, Player),
        (WebGpuTimer, LaunchTimer),
    ],
)
def test_players_and_timers_implement_their_protocol(implementation: type, protocol: type) -> None:
    attributes = {"plan", "timings"}  # set by the constructor
    assert {
        one for one in methods(protocol) - attributes if not hasattr(implementation, one)
    } == set()
