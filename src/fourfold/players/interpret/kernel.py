"""A kernel of a program, ready to be run for the work-items of a grid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fourfold.errors import BuildError
from fourfold.kernel.check import check_kernel
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.statement import (
    AwaitInputs,
    Barrier,
    DiagonalMultiply,
    LocalArray,
    MatrixMultiply,
)
from fourfold.kernel.tree.parse import Entry, StageTable, parse
from fourfold.kernel.walk import expressions, statements
from fourfold.players.interpret.arithmetic import KINDS
from fourfold.players.interpret.expressions import Scope
from fourfold.players.interpret.frame import NOTHING, Frame, Grid, Turn
from fourfold.players.interpret.memory import Memory
from fourfold.players.interpret.place import LOCAL, PRIVATE, Place, element_type
from fourfold.players.interpret.statements import make_block

MOST_ITEMS = 4096  # work-items side by side: their vectors of four fit into the nearest caches
_TOGETHER = (Barrier, LocalArray, MatrixMultiply, DiagonalMultiply)


@dataclass(frozen=True)
class Call:
    """One run of a kernel: over which grid, with what behind its pointers, and its sizes."""

    grid: Grid
    places: Sequence[Place]
    sizes: Sequence[int]
    turn: Turn
    repeats: bool = False  # whether the last group runs twice


class RunnableKernel:
    """A kernel as Python functions."""

    def __init__(self, entry: Entry) -> None:
        self.entry, self.kernel = entry, entry.kernel
        self._scope = Scope()
        pointers = [argument.pointer for argument in self.kernel.buffers]
        pointers += [array.pointer for array in self.kernel.arrays]
        self._arrays = [one for one in self.kernel.body if isinstance(one, LocalArray)]
        pointers += [array.pointer for array in self._arrays]
        for pointer in pointers:
            self._scope.pointer(pointer)
        self._sizes = [self._scope.declare(title) for title in self.kernel.sizes]
        every = [*statements(self.kernel.body)]
        self._awaits = any(isinstance(one, AwaitInputs) for one in every)
        self._body = make_block(self._scope, self.kernel.body, alone=_is_alone(self.kernel))

    def run(self, call: Call, subgroup: int, random: np.random.Generator) -> None:
        """Run all groups of the grid: some at once, in no particular order."""
        frames = [Frame(call.grid, some, call.turn) for some in _batches(call.grid, random)]
        if call.repeats:
            again = Frame(call.grid, np.array([call.grid.groups - 1]), call.turn)
            again.numbers = again.numbers + call.grid.items
            frames.append(again)
        for frame in frames:
            frame.early, frame.subgroup = self._awaits, subgroup
            frame.values = [NOTHING] * len(self._scope.slots)
            for slot, size in zip(self._sizes, call.sizes, strict=True):
                frame.values[slot] = np.array([[size]], np.int32)
            room = len(self._scope.pointers)
            places = [*call.places, *self._private(frame), *self._local(frame)]
            frame.places = [*places, *places[:1] * (room - len(places))]
            self._body(frame)

    @property
    def shares_memory(self) -> bool:
        """Whether its groups have local memory."""
        return bool(self._arrays)

    def _private(self, frame: Frame) -> Iterator[Place]:
        """Memory of each work-item alone."""
        for array in self.kernel.arrays:
            dtype, size = element_type(array.pointer.dtype), array.size
            memory = Memory(frame.lanes * size * dtype.itemsize, dtype.itemsize)
            origin = np.arange(frame.lanes, dtype=np.int64)[None] * size
            yield Place(array.pointer.name, memory, dtype, origin, size, PRIVATE, watched=False)

    def _local(self, frame: Frame) -> Iterator[Place]:
        """Memory that each group shares."""
        groups = frame.lanes // frame.grid.items
        for array in self._arrays:
            dtype, size = KINDS[array.kind], array.size * array.width
            memory = Memory(groups * size * dtype.itemsize, dtype.itemsize)
            origin = np.repeat(np.arange(groups, dtype=np.int64) * size, frame.grid.items)[None]
            yield Place(array.pointer.name, memory, dtype, origin, size, LOCAL)


def _is_alone(kernel: Kernel) -> bool:
    """Whether its work-items have nothing to do with each other."""
    if any(isinstance(one, _TOGETHER) for one in statements(kernel.body)):
        return False
    return not any(item.op.startswith("subgroup") for item in expressions(kernel))


def _batches(grid: Grid, random: np.random.Generator) -> list[np.ndarray]:
    """The numbers of groups that run at once."""
    count = max(1, MOST_ITEMS // grid.items)
    starts = range(0, grid.groups, count)
    found = [np.arange(start, min(start + count, grid.groups)) for start in starts]
    return [found[number] for number in random.permutation(len(found))]


@dataclass(frozen=True)
class RunnableProgram:
    """The kernels of a program by their names, and what runs several of them at once."""

    kernels: Mapping[str, RunnableKernel]
    tables: Mapping[str, StageTable]


def build(text: str) -> RunnableProgram:
    """The program of a text; a BuildError where one of its kernels is illegal."""
    tree = parse(text)
    wrong = [f"error: {what}" for entry in tree.entries for what in check_kernel(entry.kernel)]
    if wrong:
        raise BuildError("the kernels break the rules of their language", "\n".join(wrong), text)
    kernels = {entry.name: RunnableKernel(entry) for entry in tree.entries}
    return RunnableProgram(kernels, tree.tables)
