"""Arguments stand in the call: no local tuple is packed only to be unpacked into one."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

import pytest
from architecture.source import FUNCTIONS, Function, Module, modules

DISPLAYS = (ast.Tuple, ast.List)


def is_packed(value: ast.AST) -> bool:
    """Return whether an expression is a fixed list of arguments, such as `(a, b)`, `[a, b]` or
    `(a, b) if c else ()`.
    """
    if isinstance(value, ast.IfExp):
        return is_packed(value.body) or is_packed(value.orelse)
    if isinstance(value, ast.BoolOp):
        return any(map(is_packed, value.values))
    if not isinstance(value, DISPLAYS):
        return False
    return len(value.elts) > 1 and not any(isinstance(one, ast.Starred) for one in value.elts)


def assignments(function: Function) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Yield the targets of all assignments, each with its own value: two for `a, b = 1, 2`."""
    for node in ast.walk(function):
        if isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            yield node.target, node.value
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            yield target, node.value
            if isinstance(target, DISPLAYS) and isinstance(node.value, DISPLAYS):
                yield from zip(target.elts, node.value.elts, strict=False)


def packed_names(function: Function) -> set[str]:
    """Return the names of fixed lists of arguments, such as `how = (a, b)`."""
    return {
        target.id
        for target, value in assignments(function)
        if isinstance(target, ast.Name) and is_packed(value)
    }


def packed_arguments(module: Module) -> list[str]:
    """Return the places where a fixed list of arguments is unpacked into a call, written there or
    under a name that has no other use.
    """
    places: dict[str, None] = {}
    for function in module.nodes(*FUNCTIONS):
        assert isinstance(function, FUNCTIONS)
        packed = packed_names(function)
        unpacked = [
            argument
            for call in ast.walk(function)
            if isinstance(call, ast.Call)
            for argument in call.args
            if isinstance(argument, ast.Starred)
        ]
        unpacked_uses = Counter(ast.unparse(one.value) for one in unpacked)
        all_uses = Counter(
            node.id
            for node in ast.walk(function)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        )
        for one in unpacked:
            name = ast.unparse(one.value)
            only_unpacked = name in packed and unpacked_uses[name] == all_uses[name]
            if only_unpacked or is_packed(one.value):
                places[f"{module.at(one)}: *{name}"] = None
    return list(places)


def test_no_arguments_are_packed_only_for_a_call() -> None:
    wrong = [place for module in modules() for place in packed_arguments(module)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("how = (a, b); f(*how)", 1),
        ("how = a, b; f(*how, c); g(*how)", 1),
        ("shape = (a, b); f(*shape); return shape", 0),
        ("parts = (a, *others); f(*parts)", 0),
        ("how: object = (a, b); f(*how)", 1),
        ("d, how = c, (a, b); f(*how)", 1),
        ("how = (a, b) if c else (); f(*how)", 1),
        ("how = c or (a, b); f(*how)", 1),
        ("f(a, *([b] if c else []))", 0),
        ("parts = [a, b]; f(*parts)", 1),
        ("f(c, *(a, b))", 1),
        ("f(*(a, b) if c else (b, a))", 1),
        ("parts = []; parts.append(a); f(*parts)", 0),
        ("parts = [a] * c; f(*parts)", 0),
        ("f(a, b)", 0),
    ],
)
def test_a_packed_argument_is_seen(body: str, count: int) -> None:
    text = f"def g(a, b, c, others):\n    {body}\n"
    module = Module("runtime/made_up.py", "fourfold.runtime.made_up", text)
    assert len(packed_arguments(module)) == count
