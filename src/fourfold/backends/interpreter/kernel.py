"""A kernel compiled to Python functions, ready to run for the work-items of a grid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fourfold.backends.interpreter.arithmetic import KINDS
from fourfold.backends.interpreter.expressions import Scope
from fourfold.backends.interpreter.frame import NOTHING, Frame, LaunchContext, LaunchGrid
from fourfold.backends.interpreter.memory import CheckedMemory
from fourfold.backends.interpreter.pointer import LOCAL, PRIVATE, BoundPointer, element_type
from fourfold.backends.interpreter.statements import make_block
from fourfold.codegen.check import check_kernel
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.statement import (
    AwaitInputs,
    Barrier,
    DiagonalMultiply,
    LocalArray,
    MatrixMultiply,
    WarpgroupMultiply,
)
from fourfold.codegen.tree.parse import ParsedKernel, StageTable, parse
from fourfold.codegen.walk import expressions, statements
from fourfold.errors import BuildError
from fourfold.types import silent_arithmetic

MAX_PARALLEL_ITEMS = 4096  # work-items at once: their 4-vectors fit into the fastest caches
_COOPERATIVE = (Barrier, LocalArray, MatrixMultiply, DiagonalMultiply, WarpgroupMultiply)


@dataclass(frozen=True)
class KernelCall:
    """One run of a kernel: its grid, the memory of its pointers, and its sizes."""

    grid: LaunchGrid
    pointers: Sequence[BoundPointer]
    sizes: Sequence[int]
    launch: LaunchContext
    repeats: bool = False  # whether the last group runs twice


class CompiledKernel:
    """A kernel as Python functions."""

    def __init__(self, entry: ParsedKernel) -> None:
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
        self._body = make_block(self._scope, self.kernel.body, alone=_is_independent(self.kernel))

    def run(self, call: KernelCall, subgroup: int, random: np.random.Generator) -> None:
        """Run all groups of the grid: several at once, in random order."""
        for groups in _batches(call.grid, random):
            self._run(Frame(call.grid, groups, call.launch), call, subgroup)
        if call.repeats:
            repeated = Frame(call.grid, np.array([call.grid.groups - 1]), call.launch)
            repeated.numbers = repeated.numbers + call.grid.items
            self._run(repeated, call, subgroup)

    def _run(self, frame: Frame, call: KernelCall, subgroup: int) -> None:
        frame.awaits_inputs, frame.subgroup = self._awaits, subgroup
        frame.values = [NOTHING] * len(self._scope.slots)
        for slot, size in zip(self._sizes, call.sizes, strict=True):
            frame.values[slot] = np.array([[size]], np.int32)
        bound = [*call.pointers, *self._private(frame), *self._local(frame)]
        shifted = len(self._scope.pointers) - len(bound)  # set when the kernel creates them
        frame.pointers = [*bound, *bound[:1] * shifted]
        self._body(frame)

    @property
    def shares_memory(self) -> bool:
        """Return True if its groups use local memory."""
        return bool(self._arrays)

    def _private(self, frame: Frame) -> Iterator[BoundPointer]:
        """Yield the private memory of each work-item."""
        for array in self.kernel.arrays:
            dtype, size = element_type(array.pointer.dtype), array.size
            memory = CheckedMemory(frame.lanes * size * dtype.itemsize, dtype.itemsize)
            origin = np.arange(frame.lanes, dtype=np.int64)[None] * size
            yield BoundPointer(
                array.pointer.name, memory, dtype, origin, size, PRIVATE, tracked=False
            )

    def _local(self, frame: Frame) -> Iterator[BoundPointer]:
        """Yield the local memory of each group."""
        groups = frame.lanes // frame.grid.items
        for array in self._arrays:
            dtype, size = KINDS[array.kind], array.size * array.width
            memory = CheckedMemory(groups * size * dtype.itemsize, dtype.itemsize)
            origin = np.repeat(np.arange(groups, dtype=np.int64) * size, frame.grid.items)[None]
            yield BoundPointer(array.pointer.name, memory, dtype, origin, size, LOCAL)


def _is_independent(kernel: Kernel) -> bool:
    """Return True if its work-items are independent."""
    if any(isinstance(one, _COOPERATIVE) for one in statements(kernel.body)):
        return False
    return not any(item.op.startswith("subgroup") for item in expressions(kernel))


def _batches(grid: LaunchGrid, random: np.random.Generator) -> list[np.ndarray]:
    """Return the group numbers of each batch that runs at once."""
    count = max(1, MAX_PARALLEL_ITEMS // grid.items)
    starts = range(0, grid.groups, count)
    batches = [np.arange(start, min(start + count, grid.groups)) for start in starts]
    return [batches[number] for number in random.permutation(len(batches))]


@dataclass(frozen=True)
class CompiledProgram:
    """The kernels of a program by name, and the tables of persistent kernels."""

    kernels: Mapping[str, CompiledKernel]
    tables: Mapping[str, StageTable]


@silent_arithmetic()
def build(text: str) -> CompiledProgram:
    """Build the program of a text; raises a BuildError if a kernel is invalid."""
    tree = parse(text)
    wrong = [f"error: {what}" for entry in tree.entries for what in check_kernel(entry.kernel)]
    if wrong:
        raise BuildError("the kernels are invalid", "\n".join(wrong), text)
    kernels = {entry.name: CompiledKernel(entry) for entry in tree.entries}
    return CompiledProgram(kernels, tree.tables)
