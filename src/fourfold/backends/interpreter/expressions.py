"""Compile expressions of a kernel to functions that return values for all work-items at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from fourfold.backends.interpreter.arithmetic import BINARY, FUNCTIONS, KINDS
from fourfold.backends.interpreter.faults import fault, first_lane
from fourfold.backends.interpreter.frame import NOBODY, Frame
from fourfold.backends.interpreter.loads import LOADS
from fourfold.backends.interpreter.warps import WARP_OPS
from fourfold.codegen.expression import Expression, Pointer

Evaluate = Callable[[Frame], np.ndarray]
# Slot of a frame, and the function of a value that is used more than once.
SharedValue = tuple[int, Evaluate]


class Scope:
    """Assigns slots of a frame to names, pointers and shared subexpressions."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.pointers: dict[str, int] = {}
        self.shared: dict[int, int] = {}
        self.slots: list[str] = []

    def statement(self) -> Scope:
        """Return the scope of one statement, which shares subexpressions only within itself."""
        inner = Scope()
        inner.names, inner.pointers, inner.slots = self.names, self.pointers, self.slots
        return inner

    def guard(self) -> Scope:
        """Return the scope of a guarded expression: it may use subexpressions from outside, but not
        the other way round.
        """
        inner = self.statement()
        inner.shared = dict(self.shared)
        return inner

    def slot(self, title: str) -> int:
        """Add a slot to the frame."""
        self.slots.append(title)
        return len(self.slots) - 1

    def declare(self, title: str) -> int:
        if title not in self.names:
            self.names[title] = self.slot(title)
        return self.names[title]

    def pointer(self, pointer: Pointer) -> int:
        return self.pointers.setdefault(pointer.name, len(self.pointers))

    def of(self, item: Expression) -> Evaluate:
        """Return the function of one expression."""
        slot = self.shared.get(id(item))
        if slot is not None:
            return lambda frame: frame.values[slot]
        make = _MAKERS.get(item.op)
        if make is not None:
            return make(self, item)
        operands = [self.of(part) for part in item.operands]
        if item.op in ("/", "%") and item.kind in ("int", "long"):
            dividend, divisor = operands
            return partial(_divide, BINARY[item.op], dividend, divisor)
        if item.op in BINARY:
            return _binary(BINARY[item.op], *operands)
        return partial(WARP_OPS[item.op], *operands)

    def share(self, *roots: Expression) -> list[SharedValue]:
        """Compute subexpressions that are used more than once first, in this order.

        Guarded subexpressions are left to their guard.
        """
        counts: Counter[int] = Counter()
        order: list[Expression] = []

        def visit(item: Expression) -> None:
            if item.op in ("const", "name") or id(item) in self.shared:
                return
            counts[id(item)] += 1
            if counts[id(item)] == 1:
                parts = item.operands[:1] if item.op == "guarded" else item.operands
                for part in parts:
                    if isinstance(part, Expression):
                        visit(part)
                order.append(item)

        for root in roots:
            visit(root)
        shared = []
        for item in order:
            if counts[id(item)] > 1:
                evaluate = self.of(item)
                self.shared[id(item)] = self.slot(item.op)
                shared.append((self.shared[id(item)], evaluate))
        return shared


def evaluate_shared(frame: Frame, shared: Sequence[SharedValue]) -> None:
    for slot, evaluate in shared:
        frame.values[slot] = evaluate(frame)


def _binary(function: Callable[..., np.ndarray], a: Evaluate, b: Evaluate) -> Evaluate:
    return lambda frame: function(a(frame), b(frame))


def _divide(
    function: Callable[..., np.ndarray], a: Evaluate, b: Evaluate, frame: Frame
) -> np.ndarray:
    """Divide integers; raises an error for a division by zero, which stops some processors."""
    divisor = b(frame)
    zeros = frame.fill_inactive(divisor) == 0
    if zeros.any():
        lane, fix = first_lane(frame, zeros), "guard the division with a condition"
        raise fault(frame, lane, "divides by zero", "divides an integer by zero", fix)
    return function(a(frame), divisor)


def _const(scope: Scope, item: Expression) -> Evaluate:
    value = np.array([[item.operands[0]]]).astype(KINDS[item.kind])
    return lambda frame: value


def _name(scope: Scope, item: Expression) -> Evaluate:
    slot = scope.names[item.operands[0]]
    return lambda frame: frame.values[slot]


def _global_id(scope: Scope, item: Expression) -> Evaluate:
    axis: int = item.operands[0]
    return lambda frame: frame.global_ids[axis]


def _local_id(scope: Scope, item: Expression) -> Evaluate:
    axis: int = item.operands[0]
    return lambda frame: frame.local_ids[axis]


def _negative(scope: Scope, item: Expression) -> Evaluate:
    value = scope.of(item.operands[0])
    return lambda frame: np.negative(value(frame))


def _where(scope: Scope, item: Expression) -> Evaluate:
    condition, yes, no = (scope.of(part) for part in item.operands)

    def choose(frame: Frame) -> np.ndarray:
        return np.where(condition(frame), yes(frame), no(frame))

    return choose


def _guarded(scope: Scope, item: Expression) -> Evaluate:
    """Evaluate the value only for work-items for which the condition holds."""
    condition, otherwise = scope.of(item.operands[0]), scope.of(item.operands[2])
    inner = scope.guard()
    shared = inner.share(item.operands[1])
    value = inner.of(item.operands[1])

    def guard(frame: Frame) -> np.ndarray:
        holds, outer = condition(frame), frame.mask
        inside = frame.narrow(holds)
        if inside is NOBODY:
            return otherwise(frame)
        frame.mask = inside
        evaluate_shared(frame, shared)
        inner_value = value(frame)
        frame.mask = outer
        return inner_value if inside is outer else np.where(holds, inner_value, otherwise(frame))

    return guard


def _splat(scope: Scope, item: Expression) -> Evaluate:
    return scope.of(item.operands[0])  # one row stands for all lanes


def _vector(scope: Scope, item: Expression) -> Evaluate:
    lanes = [scope.of(part) for part in item.operands]
    widths = [part.width for part in item.operands]
    dtype, width = KINDS[item.kind], item.width

    def join(frame: Frame) -> np.ndarray:
        values = [lane(frame) for lane in lanes]
        joined = np.empty((width, max(value.shape[1] for value in values)), dtype)
        row = 0
        for value, count in zip(values, widths, strict=True):
            joined[row : row + count] = value
            row += count
        return joined

    return join


def _part(scope: Scope, item: Expression) -> Evaluate:
    value, index = scope.of(item.operands[0]), item.operands[1]
    first, end = index * item.width, (index + 1) * item.width

    def cut(frame: Frame) -> np.ndarray:
        vector = value(frame)
        return vector if vector.shape[0] == 1 else vector[first:end]

    return cut


def _convert(scope: Scope, item: Expression) -> Evaluate:
    value, dtype = scope.of(item.operands[0]), KINDS[item.kind]
    return lambda frame: value(frame).astype(dtype)


def _bitcast(scope: Scope, item: Expression) -> Evaluate:
    value, dtype = scope.of(item.operands[0]), KINDS[item.kind]
    return lambda frame: value(frame).view(dtype)


def _math(scope: Scope, item: Expression) -> Evaluate:
    function = FUNCTIONS[item.operands[0]]
    values = [scope.of(part) for part in item.operands[1:]]
    if len(values) == 1:
        (value,) = values
        return lambda frame: function(value(frame))
    return _binary(function, *values)


def _load(scope: Scope, item: Expression) -> Evaluate:
    pointer, *operands = item.operands
    make: Callable[..., Evaluate] = LOADS[item.op]
    return make(scope.pointer(pointer), item, *(scope.of(part) for part in operands))


_MAKERS: dict[str, Callable[[Scope, Any], Evaluate]] = {
    "const": _const,
    "name": _name,
    "global_id": _global_id,
    "local_id": _local_id,
    "neg": _negative,
    "where": _where,
    "guarded": _guarded,
    "splat": _splat,
    "vector": _vector,
    "lane": _part,
    "part": _part,
    "convert": _convert,
    "bitcast": _bitcast,
    "math": _math,
    **dict.fromkeys(LOADS, _load),
}
