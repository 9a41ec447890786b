"""Every error says what happened, why, and how to fix it."""

from __future__ import annotations

import ast
import pickle

import pytest
from architecture.source import modules

from fourfold import errors
from fourfold.errors import BuildError, FourfoldError, Refusal, UnsupportedError

ERROR_CLASSES = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, FourfoldError)
}
PARTS = 3
EXAMPLES = [
    *(
        kind("the run failed", "the device was lost", "open the session again")
        for kind in ERROR_CLASSES.values()
        if kind not in (BuildError, UnsupportedError)
    ),
    UnsupportedError("a node cannot run", [Refusal("n1", "warp", "unknown op")], "remove it"),
    BuildError("kernel 'k' was not built", "1:2: error: no such type", "kernel void k() {}"),
]


def test_there_are_at_most_seven_error_classes() -> None:
    assert len(ERROR_CLASSES) <= 7


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_message_states_what_why_and_fix(error: FourfoldError) -> None:
    assert error.what
    assert error.why
    assert error.fix
    assert str(error) == f"{error.what}\n  why: {error.why}\n  fix: {error.fix}"


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_errors_can_be_pickled(error: FourfoldError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)


def test_every_error_is_constructed_with_all_parts() -> None:
    violations = []
    for module in modules():
        for node in module.nodes(ast.Call):
            assert isinstance(node, ast.Call)
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else None
            name = function.id if isinstance(function, ast.Name) else name
            if name not in ERROR_CLASSES or any(isinstance(one, ast.Starred) for one in node.args):
                continue
            arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
            empty = any(isinstance(one, ast.Constant) and not one.value for one in arguments)
            if len(arguments) != PARTS or empty:
                violations.append(f"{module.at(node)}: {name} with {len(arguments)} parts")
    assert not violations, "\n".join(violations)


def test_no_error_class_is_raised_without_arguments() -> None:
    bare = [
        module.at(node)
        for module in modules()
        for node in module.nodes(ast.Raise)
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Name)
        and node.exc.id in ERROR_CLASSES
    ]
    assert not bare, "\n".join(bare)
