"""Kernel: collects parameters and statements while a Python function describes one entry point."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from fourfold.codegen.expression import (
    Expression,
    Operand,
    Pointer,
    bitcast,
    const,
    global_id,
    lift,
    local_id,
    name,
)
from fourfold.codegen.statement import (
    Assign,
    AwaitHost,
    AwaitInputs,
    Barrier,
    Branch,
    Declare,
    Leave,
    LocalArray,
    Loop,
    Prefetch,
    PrivateArray,
    Shift,
    Statement,
    Store,
)
from fourfold.types import DType


@dataclass(frozen=True)
class BufferArgument:
    """A pointer parameter and the memory it points into."""

    pointer: Pointer
    memory: object


class Variable(Expression):
    """A named value that may change."""


@dataclass
class Run:
    """Neighbouring pixels of one slice, and the index of the first of them in each view."""

    pixel: Expression
    slice: Expression
    starts: dict[str, Expression] = field(default_factory=dict)

    def steps(self, pixel: Expression) -> int | None:
        """Return the distance of a pixel from the first, if it is constant."""
        if pixel is self.pixel:
            return 0
        if pixel.op != "+" or pixel.operands[1].number is None:
            return None
        before = self.steps(pixel.operands[0])
        return None if before is None else before + int(pixel.operands[1].number)


class Kernel:
    """One entry point under construction.

    `literal` writes sizes as literals instead of parameters.
    """

    def __init__(self, title: str, literal: bool, real: str = "float") -> None:
        self.title = title
        self.literal = literal
        self.real = real
        self.buffers: list[BufferArgument] = []
        self.sizes: dict[str, int] = {}
        self.body: list[Statement] = []
        self.arrays: list[PrivateArray] = []
        self.grid: tuple[int, ...] = (1,)
        self.local: tuple[int, ...] = (1,)
        self.run: Run | None = None
        self.packs = False  # read and write several bytes at once
        self.streamed: set[str] = set()  # pointers to constants that are read once per run
        self.short = False  # prefer a loop to repeated code
        # Neighbours that exchange values: 1 if they cannot, None if only the device knows the
        # number.
        self.subgroup_size: int | None = 1
        self._blocks = [self.body]
        self._names: dict[str, int] = {}

    def size(self, title: str, value: int, always: bool = False) -> Expression:
        """Return a number that is known at planning time.

        0 and 1 are literals, for shorter text, unless `always` makes it a parameter: one text for
        all values is compiled only once.
        """
        if self.literal or (value in (0, 1) and not always):
            return const(value)
        self.sizes.setdefault(title, value)
        if self.sizes[title] != value:
            raise ValueError(f"size {title!r} is both {self.sizes[title]} and {value}")
        return name(title, "int")

    def number(self, title: str, value: float) -> Expression:
        """Return a real number that differs between kernels of one text, as a parameter.

        0 and 1 are literals, because they may cost nothing.
        """
        if self.literal or value in (0.0, 1.0):
            return const(float(value), "float")
        title = self._unique(title)
        self.sizes[title] = int(np.float32(value).view(np.int32))
        return bitcast(name(title, "int"), "float")

    def pointer(self, title: str, dtype: DType, memory: object, writable: bool = False) -> Pointer:
        """Add a parameter that points into a buffer of the plan."""
        pointer = Pointer(self._unique(title), dtype, writable)
        self.buffers.append(BufferArgument(pointer, memory))
        return pointer

    def ids(
        self, *counts: int, local: tuple[int, ...] = (), stay: bool = False
    ) -> list[Expression]:
        """Return this work-item's position in a grid of `counts`.

        Work-items beyond the grid return, unless they must `stay`.
        """
        self.local = (local or (1,) * len(counts))[: len(counts)]
        self.grid = tuple(-(-n // size) * size for n, size in zip(counts, self.local, strict=True))
        positions = []
        for axis, count in enumerate(counts):
            single = self.grid[axis] == 1
            position = const(0) if single else self.let(global_id(axis), "xyz"[axis])
            positions.append(position)
            if self.grid[axis] != count and not stay:
                self.emit(Branch(position >= self.size(f"grid_{'xyz'[axis]}", count), [Leave()]))
        return positions

    def local_id(self, axis: int) -> Expression:
        return local_id(axis) if self.local[axis] > 1 else const(0)

    def let(self, value: Operand, title: str = "t") -> Expression:
        """Name a value that does not change; names and literals stay as they are."""
        value = lift(value)
        if value.op in ("const", "name"):
            return value
        target = name(self._unique(title), value.kind, value.width)
        self.emit(Declare(target, value, constant=True))
        return target

    def variable(self, value: Operand, title: str = "v") -> Variable:
        value = lift(value)
        target = Variable("name", (self._unique(title),), value.kind, value.width)
        self.emit(Declare(target, value, constant=False))
        return target

    def set(self, target: Variable, value: Operand) -> None:
        self.emit(Assign(target, lift(value, target.kind)))

    def add(self, target: Variable, value: Operand) -> None:
        """Emit target += value, which every compiler contracts into a fused multiply-add."""
        self.emit(Assign(target, lift(value, target.kind), "+"))

    def shifted(self, base: Pointer, index: Operand, width: int, title: str) -> Pointer:
        """Return a pointer at an offset: accesses near it need no additions."""
        target = replace(base, name=self._unique(title), width=width)
        self.emit(Shift(target, base, lift(index)))
        return target

    def prefetch(self, pointer: Pointer, index: Operand) -> None:
        """Hint that an element, if it exists, will be read soon, so that a CPU caches it."""
        self.emit(Prefetch(pointer, lift(index)))

    def store(self, pointer: Pointer, index: Operand, value: Expression) -> None:
        self.emit(Store(pointer, lift(index), value))

    @contextmanager
    def loop(
        self, stop: Operand, start: Operand = 0, step: Operand = 1, title: str = "i"
    ) -> Iterator[Expression]:
        """Open a loop in the kernel; one with exactly one iteration is inlined."""
        start, stop, step = lift(start), lift(stop), lift(step)
        limits = [start.number, stop.number, step.number]
        if None not in limits and limits[0] < limits[1] <= limits[0] + limits[2]:  # type: ignore[operator]
            yield start
            return
        variable = name(self._unique(title), "int")
        statement = Loop(variable, start, stop, step)
        self.emit(statement)
        with self._inside(statement.body):
            yield variable

    @contextmanager
    def when(self, condition: Operand) -> Iterator[Branch | None]:
        condition = lift(condition)
        if condition.number is not None and condition.number:
            yield None
            return
        branch = Branch(condition)
        self.emit(branch)
        with self._inside(branch.body):
            yield branch

    @contextmanager
    def otherwise(self, branch: Branch) -> Iterator[None]:
        with self._inside(branch.otherwise):
            yield

    @contextmanager
    def run_of(self, pixel: Expression, slice_: Expression) -> Iterator[None]:
        """Compute one address for all accesses inside that are a few pixels after the first."""
        self.run = Run(pixel, slice_)
        yield
        self.run = None

    def barrier(self) -> None:
        self.emit(Barrier())

    def await_inputs(self) -> None:
        """Mark where inputs are needed: statements before it may overlap with preceding kernels."""
        self.emit(AwaitInputs())

    def await_host(self, needed: Expression, asks: Expression) -> None:
        """Wait until the host has provided `needed` pieces of the inputs."""
        self.emit(AwaitHost(needed, asks))

    def local_array(self, title: str, kind: str, width: int, size: int) -> Pointer:
        pointer = Pointer(self._unique(title), DType.F32, writable=True, local=True)
        self.body.insert(0, LocalArray(pointer, kind, width, size))
        return pointer

    def private_array(self, title: str, dtype: DType, size: int) -> Pointer:
        """Declare memory private to each work-item, accessed like that behind a parameter."""
        pointer = Pointer(self._unique(title), dtype, writable=True, private=True)
        self.arrays.append(PrivateArray(pointer, size))
        return pointer

    @property
    def local_items(self) -> int:
        return prod(self.local)

    def emit(self, statement: Statement) -> None:
        """Append a statement to the current block; most statements have a method of their own."""
        self._blocks[-1].append(statement)

    @contextmanager
    def _inside(self, block: list[Statement]) -> Iterator[None]:
        self._blocks.append(block)
        try:
            yield
        finally:
            self._blocks.pop()

    def _unique(self, title: str) -> str:
        count = self._names.get(title, 0)
        self._names[title] = count + 1
        return f"{title}{count}" if count else title
