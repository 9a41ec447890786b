"""Files, functions and classes stay small; a file starts with a sentence, nothing is undone."""

from __future__ import annotations

import ast
import re

from house.source import FUNCTIONS, Function, modules

FILE, FUNCTION, CLASS, POSITIONAL = 400, 50, 400, 7
LONG_FILES = {"session.py"}  # one class, the public face, with its documentation
BROAD = {"Exception", "BaseException"}


def length(node: ast.AST) -> int:
    """Return the lines of a node without its docstring, which may list many parameters."""
    first = next(iter(getattr(node, "body", ())), None)
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    docstring = lines(first) if is_text else 0
    return lines(node) - docstring


def lines(node: ast.AST | None) -> int:
    return (getattr(node, "end_lineno", None) or 0) - getattr(node, "lineno", 0) + 1


def documentation(node: ast.AST) -> int:
    """Lines of docstrings inside a class, its own among them."""
    inner = (one for one in ast.walk(node) if isinstance(one, ast.Expr))
    return sum(lines(one) for one in inner if isinstance(one.value, ast.Constant))


def positional(function: Function) -> int:
    """Count the parameters that may be passed by position."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args]
    return len([one for one in named if one.arg not in ("self", "cls")])


def test_files_are_short() -> None:
    sizes = {module.path: len(module.text.splitlines()) for module in modules()}
    long = {path: lines for path, lines in sizes.items() if lines > FILE}
    assert long.keys() <= LONG_FILES, long


def test_functions_are_short() -> None:
    wrong = [
        f"{module.at(node)}: {node.name} has {length(node)} lines"
        for module in modules()
        for node in module.nodes(*FUNCTIONS)
        if length(node) > FUNCTION
    ]
    assert not wrong, "\n".join(wrong)


def test_functions_take_few_positional_parameters() -> None:
    wrong = [
        f"{module.at(node)}: {node.name} has {positional(node)} positional parameters"
        for module in modules()
        for node in module.nodes(*FUNCTIONS)
        if isinstance(node, FUNCTIONS) and positional(node) > POSITIONAL
    ]
    assert not wrong, "\n".join(wrong)


def test_classes_are_small() -> None:
    wrong = [
        f"{module.at(node)}: {length(node)} lines"
        for module in modules()
        for node in module.nodes(ast.ClassDef)
        if lines(node) - documentation(node) > CLASS
    ]
    assert not wrong, "\n".join(wrong)


def test_a_file_starts_with_a_sentence() -> None:
    wrong = []
    for module in modules():
        first = (ast.get_docstring(module.tree) or "").split("\n\n")[0].strip()
        if not first or not re.search(r"[.:;?!)]$", first):
            wrong.append(f"{module.path}: {first!r}")
    assert not wrong, "\n".join(wrong)


def test_nothing_is_left_undone() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    assert [module.path for module in modules() if marks.search(module.text)] == []


def test_a_broad_except_raises_again() -> None:
    wrong = []
    for module in modules():
        for node in module.nodes(ast.ExceptHandler):
            assert isinstance(node, ast.ExceptHandler)
            broad = node.type is None or is_broad(node.type)
            if broad and not any(isinstance(inner, ast.Raise) for inner in ast.walk(node)):
                wrong.append(module.at(node))
    assert not wrong, "\n".join(wrong)


def test_no_broad_error_is_suppressed() -> None:
    wrong = []
    for module in modules():
        for node in module.nodes(ast.Call):
            assert isinstance(node, ast.Call)
            named = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if named == "suppress" and any(map(is_broad, node.args)):
                wrong.append(module.at(node))
    assert not wrong, "\n".join(wrong)


def is_broad(errors: ast.expr) -> bool:
    return any(isinstance(name, ast.Name) and name.id in BROAD for name in ast.walk(errors))
