"""Files, functions and classes stay small, files have a docstring, and broad excepts re-raise."""

from __future__ import annotations

import ast
import re

from architecture.source import FUNCTIONS, Function, modules

MAX_FILE_LINES, MAX_FUNCTION_LINES, MAX_CLASS_LINES, MAX_POSITIONAL = 400, 50, 400, 7
LONG_FILES = {"session.py"}  # the documented public class
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
    """Count the lines of all docstrings inside a class, including its own."""
    inner = (one for one in ast.walk(node) if isinstance(one, ast.Expr))
    return sum(lines(one) for one in inner if isinstance(one.value, ast.Constant))


def positional_count(function: Function) -> int:
    """Count the parameters that may be passed by position."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args]
    return len([one for one in named if one.arg not in ("self", "cls")])


def test_files_are_short() -> None:
    sizes = {module.path: len(module.text.splitlines()) for module in modules()}
    long = {path: lines for path, lines in sizes.items() if lines > MAX_FILE_LINES}
    assert long.keys() <= LONG_FILES, long


def test_functions_are_short() -> None:
    violations = [
        f"{module.at(node)}: {node.name} has {length(node)} lines"
        for module in modules()
        for node in module.nodes(*FUNCTIONS)
        if length(node) > MAX_FUNCTION_LINES
    ]
    assert not violations, "\n".join(violations)


def test_functions_take_few_positional_parameters() -> None:
    violations = [
        f"{module.at(node)}: {node.name} has {positional_count(node)} positional parameters"
        for module in modules()
        for node in module.nodes(*FUNCTIONS)
        if isinstance(node, FUNCTIONS) and positional_count(node) > MAX_POSITIONAL
    ]
    assert not violations, "\n".join(violations)


def test_classes_are_small() -> None:
    violations = [
        f"{module.at(node)}: {length(node)} lines"
        for module in modules()
        for node in module.nodes(ast.ClassDef)
        if lines(node) - documentation(node) > MAX_CLASS_LINES
    ]
    assert not violations, "\n".join(violations)


def test_files_start_with_a_docstring_sentence() -> None:
    violations = []
    for module in modules():
        first = (ast.get_docstring(module.tree) or "").split("\n\n")[0].strip()
        if not first or not re.search(r"[.:;?!)]$", first):
            violations.append(f"{module.path}: {first!r}")
    assert not violations, "\n".join(violations)


def test_there_are_no_todo_comments() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    assert [module.path for module in modules() if marks.search(module.text)] == []


def test_broad_excepts_reraise() -> None:
    violations = []
    for module in modules():
        for node in module.nodes(ast.ExceptHandler):
            assert isinstance(node, ast.ExceptHandler)
            broad = node.type is None or is_broad(node.type)
            if broad and not any(isinstance(inner, ast.Raise) for inner in ast.walk(node)):
                violations.append(module.at(node))
    assert not violations, "\n".join(violations)


def test_broad_errors_are_not_suppressed() -> None:
    violations = []
    for module in modules():
        for node in module.nodes(ast.Call):
            assert isinstance(node, ast.Call)
            named = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if named == "suppress" and any(map(is_broad, node.args)):
                violations.append(module.at(node))
    assert not violations, "\n".join(violations)


def is_broad(errors: ast.expr) -> bool:
    return any(isinstance(name, ast.Name) and name.id in BROAD for name in ast.walk(errors))
