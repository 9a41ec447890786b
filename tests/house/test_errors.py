"""Every error says what happened, why, and how to fix it."""

from __future__ import annotations

import ast
import pickle

import pytest
from house.source import modules

from fourfold import errors
from fourfold.errors import BuildError, FourfoldError, Refusal, UnsupportedError

CLASSES = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, FourfoldError)
}
PARTS = 3
EXAMPLES = [
    *(
        kind("it broke", "of a reason", "mend it")
        for kind in CLASSES.values()
        if kind not in (BuildError, UnsupportedError)
    ),
    UnsupportedError("two nodes cannot run", [Refusal("n1", "warp", "not known")], "leave it out"),
    BuildError("kernel 'k' was not built", "1:2: error: no such type", "kernel void k() {}"),
]


def test_there_are_at_most_six_classes() -> None:
    assert len(CLASSES) <= 6


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_a_message_has_three_parts(error: FourfoldError) -> None:
    assert error.what
    assert error.why
    assert error.fix
    assert str(error) == f"{error.what}\n  why: {error.why}\n  fix: {error.fix}"


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_can_be_sent_to_another_process(error: FourfoldError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)


def test_every_error_made_in_the_source_gives_all_parts() -> None:
    wrong = []
    for module in modules():
        for node in module.nodes(ast.Call):
            assert isinstance(node, ast.Call)
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else None
            name = function.id if isinstance(function, ast.Name) else name
            if name not in CLASSES or any(isinstance(one, ast.Starred) for one in node.args):
                continue
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            empty = any(isinstance(one, ast.Constant) and not one.value for one in given)
            if len(given) != PARTS or empty:
                wrong.append(f"{module.at(node)}: {name} with {len(given)} parts")
    assert not wrong, "\n".join(wrong)


def test_our_errors_are_raised_with_their_parts() -> None:
    bare = [
        module.at(node)
        for module in modules()
        for node in module.nodes(ast.Raise)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name) and node.exc.id in CLASSES
    ]
    assert not bare, "\n".join(bare)
