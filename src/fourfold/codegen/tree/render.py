"""Renders a kernel tree as text without loss: every node with its type, shared nodes by label.

    (kernel tanh_0 "tanh" float
      (buffer src f32)
      (buffer dst f32 writable)
      (size grid_x)
      (let x:int (global_id:int 0))
      (if (>=:bool x grid_x)
        (leave))
      (store dst x (tanh:float4 (load:float4 src x))))

A node that is used more than once is written at its first use, with a label in front of it:
`#3=(+:int x 1)`. Later uses are written as `#3#`.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator

from fourfold.codegen.expression import Expression, Number, Pointer
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.statement import (
    Assign,
    AwaitCopies,
    AwaitHost,
    AwaitInputs,
    AwaitProducts,
    Barrier,
    BeginProducts,
    Branch,
    CopyAhead,
    Declare,
    DiagonalMultiply,
    DotAccumulate,
    EndCopies,
    EndProducts,
    Leave,
    LocalArray,
    Loop,
    MatrixMultiply,
    Prefetch,
    Shift,
    ShowCopies,
    Statement,
    Store,
    StoreRounded,
    StoreRoundedBlock,
    WarpgroupMultiply,
)
from fourfold.codegen.walk import operands, statements

# Statements that are a word and their operands, in the order of their fields.
PLAIN: dict[str, type] = {
    "store": Store,
    "prefetch": Prefetch,
    "store_rounded": StoreRounded,
    "store_rounded_block": StoreRoundedBlock,
    "dot_accumulate": DotAccumulate,
    "matrix_multiply": MatrixMultiply,
    "diagonal_multiply": DiagonalMultiply,
    "copy_ahead": CopyAhead,
    "end_copies": EndCopies,
    "await_copies": AwaitCopies,
    "show_copies": ShowCopies,
    "warpgroup_multiply": WarpgroupMultiply,
    "begin_products": BeginProducts,
    "end_products": EndProducts,
    "await_products": AwaitProducts,
    "await_inputs": AwaitInputs,
    "await_host": AwaitHost,
    "barrier": Barrier,
    "leave": Leave,
}
_WORDS = {kind: word for word, kind in PLAIN.items()}
_LEAVES = ("const", "name")


def render(
    kernel: Kernel,
    entry: str,
    images: frozenset[str] = frozenset(),
    group: tuple[int, ...] = (),
) -> str:
    """Return the text of one kernel.

    `images` names the pointers that are read as images. `group` is the size of its work-groups, if
    no launch defines it.
    """
    return "\n".join(_Writer(kernel).lines(entry, images, group)) + "\n"


def type_name(kind: str, width: int) -> str:
    """Return a kind and a width in one word, such as float4."""
    return kind if width == 1 else f"{kind}{width}"


class _Writer:
    """Writes one kernel and keeps track of the nodes written so far."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._labels: dict[int, int] = {}
        self._shared = _shared_nodes(kernel)

    def lines(self, entry: str, images: frozenset[str], group: tuple[int, ...]) -> Iterator[str]:
        kernel = self._kernel
        lines = [f"(kernel {entry} {json.dumps(kernel.title)} {kernel.real}"]
        if group:
            lines.append(f"  (group {' '.join(map(str, group))})")
        for argument in kernel.buffers:
            pointer = argument.pointer
            words = [pointer.name, pointer.dtype.value]
            words += ["writable"] if pointer.writable else []
            words += ["image"] if pointer.name in images else []
            lines.append(f"  (buffer {' '.join(words)})")
        lines += [f"  (size {title})" for title in kernel.sizes]
        for array in kernel.arrays:
            lines.append(
                f"  (private {array.pointer.name} {array.pointer.dtype.value} {array.size})"
            )
        lines += self._block(kernel.body, 1)
        lines[-1] += ")"
        return iter(lines)

    def _block(self, body: list[Statement], depth: int) -> Iterator[str]:
        for statement in body:
            yield from self._statement(statement, depth)

    def _statement(self, statement: Statement, depth: int) -> Iterator[str]:
        pad = "  " * depth
        match statement:
            case Loop(variable, start, stop, step, body):
                limits = " ".join(self._of(item) for item in (start, stop, step))
                yield from _closed(
                    [f"{pad}(for {variable.operands[0]} {limits}", *self._block(body, depth + 1)]
                )
            case Branch(condition, body, otherwise):
                lines = [f"{pad}(if {self._of(condition)}", *self._block(body, depth + 1)]
                if otherwise:
                    inner = [f"{pad}  (else", *self._block(otherwise, depth + 2)]
                    lines += _closed(inner)
                yield from _closed(lines)
            case _:
                yield f"{pad}({' '.join(self._words(statement))})"

    def _words(self, statement: Statement) -> Iterator[str]:
        """Yield the words of a statement that contains no other statements."""
        match statement:
            case Declare(target, value, constant):
                yield "let" if constant else "var"
                yield f"{target.operands[0]}:{type_name(target.kind, target.width)}"
                yield self._of(value)
            case Assign(target, value, op):
                yield "add" if op else "set"
                yield str(target.operands[0])
                yield self._of(value)
            case Shift(target, base, index):
                yield "shift"
                yield f"{target.name}:{target.width}"
                yield base.name
                yield self._of(index)
            case LocalArray(pointer, kind, width, size):
                yield "local"
                yield f"{pointer.name}:{type_name(kind, width)}"
                yield str(size)
            case _:
                yield _WORDS[type(statement)]
                fields = [item for item in vars(statement).values() if item is not None]
                if isinstance(statement, WarpgroupMultiply):
                    fields[-1:] = statement.targets
                yield from map(self._of, fields)

    def _of(self, item: object) -> str:
        """Write an operand: a node, a pointer, a number or a word."""
        if isinstance(item, Pointer):
            return item.name
        if not isinstance(item, Expression):
            return str(item)
        if item.op == "name":
            return str(item.operands[0])
        if item.op == "const":
            return _constant(item)
        if id(item) in self._labels:
            return f"#{self._labels[id(item)]}#"
        label = ""
        if id(item) in self._shared:
            self._labels[id(item)] = len(self._labels)
            label = f"#{self._labels[id(item)]}="
        op, parts = item.op, item.operands
        if op == "math":
            op, parts = parts[0], parts[1:]
        title = f"{op}:{type_name(item.kind, item.width)}"
        return f"{label}({' '.join([title, *(self._of(part) for part in parts)])})"


def _closed(lines: list[str]) -> list[str]:
    lines[-1] += ")"
    return lines


def _constant(item: Expression) -> str:
    value: Number = item.operands[0]
    natural = {bool: "bool", int: "int", float: "float"}[type(value)]
    finite = not isinstance(value, float) or math.isfinite(value)
    text = repr(value).lower()
    if item.width == 1 and item.kind == natural and finite:
        return text
    return f"(const:{type_name(item.kind, item.width)} {text})"


def _shared_nodes(kernel: Kernel) -> set[int]:
    """Return the nodes used more than once, except names and literals."""
    counts: Counter[int] = Counter()
    waiting = [item for one in statements(kernel.body) for item in operands(one)]
    while waiting:
        item = waiting.pop()
        if item.op in _LEAVES:
            continue
        counts[id(item)] += 1
        if counts[id(item)] == 1:
            waiting += (part for part in item.operands if isinstance(part, Expression))
    return {key for key, count in counts.items() if count > 1}
