"""Arguments stand in the call: no local tuple is packed only to be unpacked into one."""

from __future__ import annotations

import ast
from collections import Counter

import pytest
from architecture.source import FUNCTIONS, Function, Module, modules

MAX_PACKED = 10


def packed_names(function: Function) -> set[str]:
    """Return the names of fixed tuples, such as `how = (a, b)`."""
    return {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple)
        if not any(isinstance(one, ast.Starred) for one in node.value.elts)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def packed_arguments(module: Module) -> list[str]:
    """Return the places where such a tuple is unpacked into a call and has no other use."""
    places: dict[str, None] = {}
    for function in module.nodes(*FUNCTIONS):
        assert isinstance(function, FUNCTIONS)
        packed = packed_names(function)
        unpacked = [
            argument
            for call in ast.walk(function)
            if isinstance(call, ast.Call)
            for argument in call.args
            if isinstance(argument, ast.Starred) and isinstance(argument.value, ast.Name)
        ]
        unpacked_uses = Counter(ast.unparse(one.value) for one in unpacked)
        all_uses = Counter(
            node.id
            for node in ast.walk(function)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        )
        for one in unpacked:
            name = ast.unparse(one.value)
            if name in packed and unpacked_uses[name] == all_uses[name]:
                places[f"{module.at(one)}: *{name}"] = None
    return list(places)


def test_few_tuples_are_packed_only_for_a_call() -> None:
    wrong = [place for module in modules() for place in packed_arguments(module)]
    assert len(wrong) <= MAX_PACKED, "\n".join(wrong)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("how = (a, b); f(*how)", 1),
        ("how = a, b; f(*how, c); g(*how)", 1),
        ("shape = (a, b); f(*shape); return shape", 0),
        ("parts = (a, *others); f(*parts)", 0),
        ("parts = [a]; f(*parts)", 0),
        ("f(a, b)", 0),
    ],
)
def test_a_packed_argument_is_seen(body: str, count: int) -> None:
    text = f"def g(a, b, c, others):\n    {body}\n"
    module = Module("runtime/made_up.py", "fourfold.runtime.made_up", text)
    assert len(packed_arguments(module)) == count
