"""Compile statements of a kernel to functions that run for all active work-items."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fourfold.backends.interpreter.arithmetic import rounded_bytes
from fourfold.backends.interpreter.expressions import Evaluate, Scope, evaluate_shared
from fourfold.backends.interpreter.faults import fault, first_lane
from fourfold.backends.interpreter.frame import NOBODY, Frame
from fourfold.backends.interpreter.warps import (
    Pieces,
    check_warps,
    multiply,
    multiply_pieces,
    picked,
)
from fourfold.codegen.expression import Expression
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

Run = Callable[[Frame], None]


def make_block(scope: Scope, body: Sequence[Statement], alone: bool = False) -> Run:
    """Compile the statements of a block, which runs until no work-item is active. If work-items are
    `alone` (independent), those that left are dropped.
    """
    runs = [make_statement(scope, statement) for statement in body]

    def run(frame: Frame) -> None:
        for one in runs:
            one(frame)
            if frame.mask is NOBODY:
                return
            if alone and frame.exited is not None:
                frame.drop_exited()

    return run


def make_statement(scope: Scope, statement: Statement) -> Run:
    return _MAKERS[type(statement)](scope.statement(), statement)


def _pass(scope: Scope, statement: object) -> Run:
    """Compile a statement without effect here: a hint, or something set up before the
    kernel runs.
    """
    return lambda frame: None


def _declare(scope: Scope, statement: Declare) -> Run:
    shared, value = scope.share(statement.value), scope.of(statement.value)
    slot = scope.declare(statement.target.operands[0])

    def run(frame: Frame) -> None:
        evaluate_shared(frame, shared)
        frame.values[slot] = value(frame)

    return run


def _assign(scope: Scope, statement: Assign) -> Run:
    shared, value = scope.share(statement.value), scope.of(statement.value)
    slot, adds = scope.names[statement.target.operands[0]], statement.op == "+"

    def run(frame: Frame) -> None:
        evaluate_shared(frame, shared)
        new, old = value(frame), frame.values[slot]
        frame.values[slot] = frame.select_active(old + new if adds else new, old)

    return run


def _store(scope: Scope, statement: Store) -> Run:
    shared = scope.share(statement.index, statement.value)
    index, value = scope.of(statement.index), scope.of(statement.value)
    pointer, width = scope.pointer(statement.pointer), statement.value.width

    def run(frame: Frame) -> None:
        evaluate_shared(frame, shared)
        target = frame.pointers[pointer]
        stored = value(frame).astype(target.dtype, copy=False)
        target.write(frame, index(frame), stored, width)

    return run


def _copy_ahead(scope: Scope, statement: CopyAhead) -> Run:
    """Compile a copy, which completes immediately."""
    return _store(scope, Store(statement.target, statement.index, statement.value))


def _store_rounded(scope: Scope, statement: StoreRounded) -> Run:
    """Compile a store of sixteen bytes, from any element on."""
    parts = [statement.first, statement.second, statement.high]
    parts += [] if statement.zero is None else [statement.zero]
    shared = scope.share(statement.index, *parts)
    index, pointer = scope.of(statement.index), scope.pointer(statement.pointer)
    operands = [scope.of(part) for part in parts]

    def run(frame: Frame) -> None:
        evaluate_shared(frame, shared)
        stored = rounded_bytes(*(part(frame) for part in operands))
        frame.pointers[pointer].write(frame, index(frame), stored, 16, alignment=1)

    return run


def _store_rounded_block(scope: Scope, statement: StoreRoundedBlock) -> Run:
    """Compile a store of two times sixteen bytes: first and second halves of four vectors."""
    values = (statement.first, statement.second, statement.third, statement.fourth)
    positions, limits = (statement.index, statement.apart), (statement.high, statement.zero)
    shared = scope.share(*positions, *values, *limits)
    index, apart = (scope.of(position) for position in positions)
    high, zero = (scope.of(limit) for limit in limits)
    parts = [scope.of(value) for value in values]
    pointer = scope.pointer(statement.pointer)

    def run(frame: Frame) -> None:
        evaluate_shared(frame, shared)
        eights = np.broadcast_arrays(*(part(frame) for part in parts))
        for number, position in enumerate((index(frame), index(frame) + apart(frame))):
            fours = [eight[4 * number : 4 * number + 4] for eight in eights]
            stored = rounded_bytes(
                np.concatenate(fours[:2]), np.concatenate(fours[2:]), high(frame), zero(frame)
            )
            frame.pointers[pointer].write(frame, position, stored, 16, alignment=1)

    return run


def _loop(scope: Scope, statement: Loop) -> Run:
    limits = (statement.start, statement.stop, statement.step)
    shared = scope.share(*limits)
    start, stop, step = (scope.of(limit) for limit in limits)
    slot = scope.declare(statement.variable.operands[0])
    body = make_block(scope, statement.body)

    def run(frame: Frame) -> None:
        evaluate_shared(frame, shared)
        first, end, by = start(frame), stop(frame), step(frame)
        _check_step(frame, by)
        if first.size == end.size == by.size == 1:
            for number in range(int(first[0, 0]), int(end[0, 0]), int(by[0, 0])):
                frame.values[slot] = np.array([[number]], np.int32)
                body(frame)
                if frame.mask is NOBODY:
                    return
            return
        _run_each(frame, slot, (first, end, by), body)

    return run


def _run_each(
    frame: Frame, slot: int, limits: tuple[np.ndarray, np.ndarray, np.ndarray], body: Run
) -> None:
    """Run a loop whose limits differ between work-items."""
    (number, end, step), outer, exited = limits, frame.mask, frame.exited
    while True:
        frame.mask = frame.remaining(outer, exited)
        frame.mask = NOBODY if frame.mask is NOBODY else frame.narrow(number < end)
        if frame.mask is NOBODY:
            break
        frame.values[slot] = number
        body(frame)
        number = number + step
    frame.mask = frame.remaining(outer, exited)


def _check_step(frame: Frame, step: np.ndarray) -> None:
    backwards = frame.fill_inactive(step) <= 0
    if backwards.any():
        lane = first_lane(frame, backwards)
        fix = "use a step of at least one"
        raise fault(frame, lane, "has an endless loop", "does not advance in it", fix)


def _branch(scope: Scope, statement: Branch) -> Run:
    shared, condition = scope.share(statement.condition), scope.of(statement.condition)
    body = make_block(scope, statement.body)
    otherwise = make_block(scope, statement.otherwise) if statement.otherwise else None

    def run(frame: Frame) -> None:
        evaluate_shared(frame, shared)
        holds, outer, exited = condition(frame), frame.mask, frame.exited
        frame.mask = frame.narrow(holds)
        all_inside = frame.mask is outer
        if frame.mask is not NOBODY:
            body(frame)
        if otherwise is not None and not all_inside:
            frame.mask = outer
            frame.mask = frame.narrow(~holds)
            if frame.mask is not NOBODY:
                otherwise(frame)
        frame.mask = frame.remaining(outer, exited)

    return run


def _leave(scope: Scope, statement: Leave) -> Run:
    return Frame.leave


def _shift(scope: Scope, statement: Shift) -> Run:
    shared, index = scope.share(statement.index), scope.of(statement.index)
    base, target = scope.pointer(statement.base), scope.pointer(statement.target)
    title, width = statement.target.name, statement.target.width

    def run(frame: Frame) -> None:
        evaluate_shared(frame, shared)
        distance = index(frame).astype(np.int64) * width
        frame.pointers[target] = frame.pointers[base].shifted(title, distance)

    return run


def _barrier(scope: Scope, statement: Barrier) -> Run:
    """Compile a barrier, which all work-items of a group must reach, or none."""

    def run(frame: Frame) -> None:
        if frame.mask is None:
            frame.barriers = frame.barriers + 1
            return
        some = frame.mask.items.reshape(-1, frame.grid.items)
        parts = np.repeat(some.any(1) & ~some.all(1), frame.grid.items)[None] & frame.mask.items
        if parts.any():
            why = "waits at a barrier that other work-items of its group do not reach"
            fix = "place the barrier where all work-items of a group reach it, or none"
            raise fault(frame, first_lane(frame, parts), "has a divergent barrier", why, fix)
        frame.barriers = frame.barriers + frame.mask.items

    return run


def _await_inputs(scope: Scope, statement: AwaitInputs) -> Run:
    def run(frame: Frame) -> None:
        frame.awaits_inputs = False

    return run


def _await_host(scope: Scope, statement: AwaitHost) -> Run:
    shared, needed = scope.share(statement.needed), scope.of(statement.needed)

    def run(frame: Frame) -> None:
        evaluate_shared(frame, shared)
        pieces = np.maximum(frame.pieces, needed(frame))
        frame.pieces = frame.select_active(pieces, frame.pieces)

    return run


def _accumulate(
    function: Callable[..., np.ndarray],
    scope: Scope,
    target: Expression,
    operands: Sequence[Expression],
) -> Run:
    """Compile `target = function(frame, target, ...)` for active work-items."""
    shared, slot = scope.share(*operands), scope.names[target.operands[0]]
    values: list[Evaluate] = [scope.of(part) for part in operands]

    def run(frame: Frame) -> None:
        evaluate_shared(frame, shared)
        total = frame.values[slot]
        updated = function(frame, total, *(value(frame) for value in values))
        frame.values[slot] = frame.select_active(updated, total)

    return run


def _dots(scope: Scope, statement: DotAccumulate) -> Run:
    return _accumulate(_add_dots, scope, statement.target, (statement.bytes, statement.weights))


def _add_dots(
    frame: Frame, total: np.ndarray, bytes_: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Add four products of unsigned and signed bytes in each word."""
    shape = np.broadcast_shapes(bytes_.shape, weights.shape)
    a, b = (np.broadcast_to(words, shape) for words in (bytes_, weights))
    left = np.ascontiguousarray(a).view(np.uint8).reshape(*shape, 4).astype(np.int32)
    right = np.ascontiguousarray(b).view(np.int8).reshape(*shape, 4).astype(np.int32)
    return total + (left * right).sum(axis=-1, dtype=np.int32)


def _matrices(scope: Scope, statement: MatrixMultiply) -> Run:
    operands = (statement.upper, statement.lower, statement.factor)
    return _accumulate(_multiply, scope, statement.target, operands)


def _multiply(frame: Frame, total: np.ndarray, *operands: np.ndarray) -> np.ndarray:
    check_warps(frame)
    upper, lower, factor = operands
    return multiply(frame, total, upper, lower, factor)


def _diagonals(scope: Scope, statement: DiagonalMultiply) -> Run:
    rows = (statement.upper_a, statement.lower_a, statement.upper_b, statement.lower_b)
    weights = (statement.a, statement.b, statement.pick)
    return _accumulate(_multiply_diagonals, scope, statement.target, (*rows, *weights))


def _multiply_diagonals(frame: Frame, total: np.ndarray, *operands: np.ndarray) -> np.ndarray:
    check_warps(frame)
    wide = [np.broadcast_to(part, (1, frame.lanes)) for part in operands]
    upper_a, lower_a, upper_b, lower_b, a, b, pick = wide
    factor = np.concatenate([picked(a, pick), picked(b, pick)])
    upper, lower = np.concatenate([upper_a, upper_b]), np.concatenate([lower_a, lower_b])
    return multiply(frame, total, upper, lower, factor)


def _matrices_in_memory(scope: Scope, statement: WarpgroupMultiply) -> Run:
    """Compile a matrix product, which completes immediately."""
    operands = (statement.row, statement.row_pitch, statement.column, statement.column_pitch)
    shared, evaluators = scope.share(*operands), [scope.of(operand) for operand in operands]
    rows, columns = scope.pointer(statement.rows), scope.pointer(statement.columns)
    slots = [scope.names[target.operands[0]] for target in statement.targets]

    def run(frame: Frame) -> None:
        evaluate_shared(frame, shared)
        row, row_pitch, column, column_pitch = (operand(frame) for operand in evaluators)
        left = Pieces(frame.pointers[rows], row, row_pitch)
        right = Pieces(frame.pointers[columns], column, column_pitch)
        for slot, product in zip(
            slots, multiply_pieces(frame, left, right, len(slots)), strict=True
        ):
            total = frame.values[slot]
            frame.values[slot] = frame.select_active(total + product, total)

    return run


_MAKERS: dict[type, Callable[..., Run]] = {
    Declare: _declare,
    Assign: _assign,
    Store: _store,
    StoreRounded: _store_rounded,
    StoreRoundedBlock: _store_rounded_block,
    Loop: _loop,
    Branch: _branch,
    Leave: _leave,
    Shift: _shift,
    Prefetch: _pass,
    CopyAhead: _copy_ahead,
    EndCopies: _pass,
    AwaitCopies: _pass,
    LocalArray: _pass,
    Barrier: _barrier,
    AwaitInputs: _await_inputs,
    AwaitHost: _await_host,
    DotAccumulate: _dots,
    MatrixMultiply: _matrices,
    WarpgroupMultiply: _matrices_in_memory,
    ShowCopies: _pass,
    BeginProducts: _pass,
    EndProducts: _pass,
    AwaitProducts: _pass,
    DiagonalMultiply: _diagonals,
}
