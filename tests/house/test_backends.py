"""Nobody knows one GPU API but its own folder: others ask the registry, and know two protocols."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from house.source import PACKAGE, Module, imported, modules

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


def folders() -> list[str]:
    """The API folders by their dotted names."""
    found = (path.parent for path in Path(PACKAGE / "backends").glob("*/__init__.py"))
    names = sorted({path.name for path in found} - {*NO_BACKENDS})
    return [f"{BACKENDS}.{name}" for name in names]


def names(module: Module) -> Iterator[tuple[ast.AST, str]]:
    """What a module imports, at once or lazily by a text."""
    for node in module.nodes(ast.Import, ast.ImportFrom):
        yield from ((node, name) for name in imported(node))
    for node in module.nodes(ast.Constant):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node, node.value


def strangers(module: Module) -> list[str]:
    """Where a module names an API folder that it is not in."""
    return [
        f"{module.at(node)}: {name}"
        for node, name in names(module)
        for folder in folders()
        if f"{name}.".startswith(f"{folder}.") and not f"{module.name}.".startswith(f"{folder}.")
    ]


def asked_types(module: Module) -> Iterator[tuple[ast.AST, str]]:
    """The names in the second argument of each isinstance."""
    for node in module.nodes(ast.Call):
        assert isinstance(node, ast.Call)
        if ast.unparse(node.func) != "isinstance":
            continue
        for inner in ast.walk(node.args[1]):
            if isinstance(inner, ast.Name | ast.Attribute):
                yield node, ast.unparse(inner)


def asked_players(module: Module) -> list[str]:
    """Where a module asks what kind of player or back end it has."""
    from_players = {
        name.rpartition(".")[2]
        for node in module.nodes(ast.ImportFrom)
        for name in imported(node)
        if name.startswith(f"{BACKENDS}.")
    }
    return [
        f"{module.at(node)}: isinstance(..., {name})"
        for node, name in asked_types(module)
        if name in from_players or name.startswith("backends.")
    ]


def test_nobody_imports_an_api_but_its_own_folder() -> None:
    assert folders(), "no API was found"
    wrong = [line for module in modules() for line in strangers(module)]
    assert not wrong, "\n".join(wrong)


def test_nobody_asks_what_kind_of_player_it_has() -> None:
    outside = [module for module in modules() if not module.path.startswith("backends/")]
    wrong = [line for module in outside for line in asked_players(module)]
    assert not wrong, "\n".join(wrong)


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
def test_a_stranger_is_seen(text: str, count: int) -> None:
    module = Module("runtime/made_up.py", "fourfold.runtime.made_up", text)
    assert len(strangers(module)) + len(asked_players(module)) == count


def methods(protocol: type) -> set[str]:
    return {name for name in vars(protocol) if not name.startswith("_")}


@pytest.mark.parametrize("name", sorted(backends()))
def test_every_folder_has_a_whole_back_end(name: str) -> None:
    backend = backends()[name]
    assert backend.name == name
    wanted = methods(Backend) | {"name", "listed"}
    assert {one for one in wanted if not hasattr(backend, one)} == set()


@pytest.mark.parametrize(
    ("made", "protocol"),
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
def test_players_do_what_the_protocol_says(made: type, protocol: type) -> None:
    attributes = {"plan", "timings"}  # set when one is made
    assert {one for one in methods(protocol) - attributes if not hasattr(made, one)} == set()
