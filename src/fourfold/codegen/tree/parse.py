"""Parses kernels from the text that `render` wrote, into equal trees."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from fourfold.codegen.expression import MATH, Expression, Pointer
from fourfold.codegen.kernel import BufferArgument, Kernel, Variable
from fourfold.codegen.statement import (
    Assign,
    Branch,
    Declare,
    LocalArray,
    Loop,
    PrivateArray,
    Shift,
    Statement,
)
from fourfold.codegen.tree.render import PLAIN
from fourfold.errors import BuildError
from fourfold.types import DType

_TOKEN = re.compile(r'[()]|"(?:[^"\\]|\\.)*"|[^\s()"]+')
_TYPE = re.compile(r"(float|half|int|uint|long|bool)(\d*)$")
_NUMBERS: dict[str, bool] = {"true": True, "false": False}
# Number of leading operands of a statement that are pointers.
_POINTED = {"store": 1, "prefetch": 1, "store_rounded": 1, "store_rounded_block": 1}
_POINTED |= {"copy_ahead": 2, "warpgroup_multiply": 2}
_WARPGROUP_INDICES = 4  # operands of a warpgroup product after its pointers and before its targets
Form = list[Any]  # words and nested forms in parentheses


class _Labelled(list[Any]):
    """A form that others refer to by its label."""

    label = ""


@dataclass(frozen=True)
class ParsedKernel:
    """A kernel of a program: its name, and the pointers that are read as images."""

    name: str
    kernel: Kernel
    images: frozenset[str]


@dataclass(frozen=True)
class StageTable:
    """An entry point that runs other kernels, by their numbers in a stage table."""

    stride: int
    kernels: tuple[str, ...]


@dataclass(frozen=True)
class ParsedProgram:
    """The kernels of a program, and the stage tables that run several of them."""

    entries: list[ParsedKernel]
    tables: dict[str, StageTable]


def parse(text: str) -> ParsedProgram:
    """Parse a program; raise BuildError if the text is malformed."""
    try:
        forms = [*_forms(text)]
        entries = [_Reader(form).entry() for form in forms if form[0] == "kernel"]
        stages = [form[1:] for form in forms if form[0] == "stages"]
        tables = {name: StageTable(int(stride), tuple(some)) for name, stride, *some in stages}
        return ParsedProgram(entries, tables)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise BuildError(
            "the text is not a valid kernel tree", f"error: {error!r}", text
        ) from error


def _forms(text: str) -> Iterator[Form]:
    """Iterate over the forms of a text."""
    stack: list[Form] = [[]]
    label = ""
    for token in _TOKEN.findall(text):
        if token == "(":
            form = _Labelled() if label else []
            if isinstance(form, _Labelled):
                form.label, label = label, ""
            stack[-1].append(form)
            stack.append(form)
        elif token == ")":
            stack.pop()
        elif token[0] == "#" and token[-1] == "=":
            label = token[1:-1]
        else:
            stack[-1].append(token)
    if len(stack) != 1:
        raise ValueError("unbalanced parentheses")
    return iter(stack[0])


def _typed(word: str) -> tuple[str, str, int]:
    """Parse 'x:float4' into a name, a kind and a width."""
    title, _, type_ = word.rpartition(":")
    match = _TYPE.match(type_)
    if match is None:
        raise ValueError(f"{word!r} has no type")
    return title, match[1], int(match[2] or 1)


def _number(word: str) -> float | int | bool:
    if word in _NUMBERS:
        return _NUMBERS[word]
    return int(word) if re.fullmatch(r"-?\d+", word) else float(word)


class _Reader:
    """Parses one kernel and keeps track of its names and labels."""

    def __init__(self, form: Form) -> None:
        _, self._name, title, real, *self._forms = form
        self._kernel = Kernel(json.loads(title), literal=False, real=real)
        self._images: set[str] = set()
        self._pointers: dict[str, Pointer] = {}
        self._names: dict[str, Expression] = {}
        self._labelled: dict[str, Expression] = {}

    def entry(self) -> ParsedKernel:
        kernel = self._kernel
        head: dict[str, Callable[..., None]] = {
            "group": self._group,
            "buffer": self._buffer,
            "size": self._size,
            "private": self._private,
        }
        body = iter(self._forms)
        for form in body:
            if form[0] not in head:
                kernel.body.extend(self._block([form, *body]))
                break
            head[form[0]](*form[1:])
        return ParsedKernel(self._name, kernel, frozenset(self._images))

    def _group(self, *sizes: str) -> None:
        self._kernel.local = tuple(map(int, sizes))

    def _buffer(self, name: str, dtype: str, *words: str) -> None:
        pointer = self._pointer(Pointer(name, DType(dtype), "writable" in words))
        self._kernel.buffers.append(BufferArgument(pointer, None))
        self._images.update([name] if "image" in words else [])

    def _size(self, name: str) -> None:
        self._kernel.sizes[name] = 0
        self._names[name] = Expression("name", (name,), "int")

    def _private(self, name: str, dtype: str, size: str) -> None:
        pointer = self._pointer(Pointer(name, DType(dtype), writable=True, private=True))
        self._kernel.arrays.append(PrivateArray(pointer, int(size)))

    def _pointer(self, pointer: Pointer) -> Pointer:
        self._pointers[pointer.name] = pointer
        return pointer

    def _block(self, forms: Iterable[Form]) -> list[Statement]:
        return [self._statement(*form) for form in forms]

    def _statement(self, word: str, *operands: Any) -> Statement:
        match word:
            case "let" | "var":
                return self._declare(word, *operands)
            case "set" | "add":
                op = "+" if word == "add" else ""
                return Assign(self._names[operands[0]], self._of(operands[1]), op)
            case "for":
                return self._loop(*operands)
            case "if":
                return self._branch(*operands)
            case "shift":
                name, _, width = operands[0].partition(":")
                base = self._pointers[operands[1]]
                index = self._of(operands[2])
                target = self._pointer(replace(base, name=name, width=int(width)))
                return Shift(target, base, index)
            case "local":
                name, kind, lanes = _typed(operands[0])
                pointer = self._pointer(Pointer(name, DType.F32, writable=True, local=True))
                return LocalArray(pointer, kind, lanes, int(operands[1]))
        pointed = _POINTED.get(word, 0)
        pointers = [self._pointers[name] for name in operands[:pointed]]
        values: list[Any] = [self._of(item) for item in operands[pointed:]]
        if word == "warpgroup_multiply":
            values[_WARPGROUP_INDICES:] = [tuple(values[_WARPGROUP_INDICES:])]
        statement: Statement = PLAIN[word](*pointers, *values)
        return statement

    def _declare(self, word: str, title: str, value: Any) -> Declare:
        name, kind, width = _typed(title)
        first = self._of(value)
        make = Expression if word == "let" else Variable
        self._names[name] = make("name", (name,), kind, width)
        return Declare(self._names[name], first, constant=word == "let")

    def _loop(self, name: str, start: Any, stop: Any, step: Any, *body: Form) -> Loop:
        first, end, by = (self._of(item) for item in (start, stop, step))
        self._names[name] = Expression("name", (name,), "int")
        return Loop(self._names[name], first, end, by, self._block(body))

    def _branch(self, condition: Any, *body: Form) -> Branch:
        test = self._of(condition)
        otherwise = body[-1][1:] if body and body[-1][0] == "else" else []
        inside = body[:-1] if otherwise else body
        return Branch(test, self._block(inside), self._block(otherwise))

    def _of(self, item: Any) -> Expression:
        """Parse an expression: a form, a label, a name or a number."""
        if isinstance(item, list):
            node = self._node(*item)
            if isinstance(item, _Labelled):
                self._labelled[item.label] = node
            return node
        if item[0] == "#":
            return self._labelled[item[1:-1]]
        if item in self._names:
            return self._names[item]
        number = _number(item)
        kind = {bool: "bool", int: "int", float: "float"}[type(number)]
        return Expression("const", (number,), kind)

    def _node(self, title: str, *parts: Any) -> Expression:
        op, kind, width = _typed(title)
        operands: tuple[Any, ...]
        if op in MATH:
            op, operands = "math", (op, *map(self._of, parts))
        elif op == "const":
            operands = (_number(parts[0]),)
        elif op in ("global_id", "local_id"):
            operands = (int(parts[0]),)
        elif op in ("lane", "part"):
            operands = (self._of(parts[0]), int(parts[1]))
        elif op.startswith("load"):
            operands = (self._pointers[parts[0]], *map(self._of, parts[1:]))
        else:
            operands = tuple(map(self._of, parts))
        return Expression(op, operands, kind, width)
