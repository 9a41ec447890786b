"""Run plans of kernel trees, kernel after kernel, in checked memory on the CPU."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from fourfold.backends.chunked_copy import copied
from fourfold.backends.host_memory import fetch_inputs, run_through_host
from fourfold.backends.interpreter.frame import LaunchContext, LaunchGrid
from fourfold.backends.interpreter.kernel import CompiledKernel, CompiledProgram, KernelCall, build
from fourfold.backends.interpreter.memory import LEVEL, SEVERAL, CheckedMemory
from fourfold.backends.interpreter.pointer import GLOBAL, BoundPointer, element_type
from fourfold.backends.interpreter.warps import WARP
from fourfold.backends.protocol import Into, Outputs
from fourfold.backends.timing import TimedPlayer
from fourfold.codegen.stage_table import ARRIVES, AWAITS, HEAD
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.plan import Buffer, BufferUse, Launch, Plan
from fourfold.plan.host_protocol import pieces

SUBGROUP = 16  # size of a sub-group if a driver could choose any
SEED = 7


class Buffers:
    """All buffers of a plan."""

    def __init__(self, plan: Plan, schedule: Sequence[ScheduledKernel]) -> None:
        self.plan = plan
        cells = _cells(plan, schedule)
        self.memories = [
            CheckedMemory(one.bytes, size) for one, size in zip(plan.buffers, cells, strict=True)
        ]
        self._first_pieces = _first_pieces(plan)
        for buffer, memory in self._all():
            if buffer.kind == "constants":
                memory.fill(plan.constants_in(buffer))
        self.reset()

    def forget(self) -> None:
        """Drop the access history: everything done so far is visible to all."""
        for memory in self.memories:
            memory.forget()

    def begin(self) -> None:
        """Start a new run: mark arena and outputs as unwritten."""
        inputs = {port.buffer for port in self.plan.inputs}
        for number, (buffer, memory) in enumerate(self._all()):
            if buffer.kind in ("arena", "output", "host") and number not in inputs:
                memory.flags[: memory.size] = 0
                memory.complete = False

    def put(self, arrays: Sequence[np.ndarray]) -> None:
        """Copy the inputs."""
        for port, array in zip(self.plan.inputs, arrays, strict=True):
            self.memories[port.buffer].fill(np.ascontiguousarray(array))

    def take(self) -> list[np.ndarray]:
        """Return the outputs; raises an error if one was not written."""
        outputs = []
        for port in self.plan.outputs:
            memory, dtype = self.memories[port.buffer], port.type.dtype.numpy
            missing = memory.first_missing(port.type.bytes)
            if missing is not None:
                what = f"output '{port.name}' is not written by any kernel"
                why = f"element {missing // dtype.itemsize} of {port.type.elements} is missing"
                raise DeviceError(what, why, "check the kernel that should write it")
            elements = memory.elements(dtype)[: port.type.elements]
            outputs.append(elements.reshape(port.type.shape).copy())
        return outputs

    def reset(self) -> None:
        """Set variables to their initial values."""
        for buffer, memory in self._of_kind("variable"):
            memory.fill(self.plan.start_of(buffer))

    def poison(self) -> None:
        """Fill arena and outputs with NaN."""
        outputs = {port.buffer for port in self.plan.outputs}
        for number, (buffer, memory) in enumerate(self._all()):
            if buffer.kind in ("arena", "output") or (buffer.kind == "host" and number in outputs):
                memory.blank()

    def saved(self) -> list[np.ndarray]:
        """Return copies of the variables."""
        return [memory.bytes[: memory.size].copy() for _, memory in self._of_kind("variable")]

    def restore(self, saved: Sequence[np.ndarray]) -> None:
        for content, (_, memory) in zip(saved, self._of_kind("variable"), strict=True):
            memory.fill(content)

    def _all(self) -> list[tuple[Buffer, CheckedMemory]]:
        return list(zip(self.plan.buffers, self.memories, strict=True))

    def _of_kind(self, kind: str) -> list[tuple[Buffer, CheckedMemory]]:
        return [(buffer, memory) for buffer, memory in self._all() if buffer.kind == kind]

    def bind(self, item: ScheduledKernel, number: int, tracked: frozenset[int]) -> BoundPointer:
        """Bind a pointer of a kernel; `tracked` buffers may be written by others meanwhile."""
        pointer, use = item.kernel.kernel.buffers[number].pointer, item.uses[number]
        memory, dtype = self.memories[use.buffer], element_type(pointer.dtype)
        extent = memory.bytes.nbytes // dtype.itemsize - use.offset
        if use.image is not None:
            extent = use.image.elements
        elif use.elements is not None:
            extent = min(extent, use.elements)
        return BoundPointer(
            pointer.name,
            memory,
            dtype,
            use.offset,
            extent,
            GLOBAL,
            tracked=use.buffer in tracked,
            constant=self.plan.buffers[use.buffer].kind == "constants",
            first_piece=self._first_pieces.get(use.buffer),
        )


def _cells(plan: Plan, schedule: Sequence[ScheduledKernel]) -> list[int]:
    """Return the size in bytes of the smallest element that kernels access in each buffer."""
    sizes = [8] * len(plan.buffers)
    for item in schedule:
        for argument, use in zip(item.kernel.kernel.buffers, item.uses, strict=True):
            size = element_type(argument.pointer.dtype).itemsize
            sizes[use.buffer] = min(sizes[use.buffer], size)
    return sizes


def _first_pieces(plan: Plan) -> dict[int, int]:
    """Return how many pieces of other inputs precede each input in host memory."""
    counts, before = {}, 0
    for port in plan.inputs:
        buffer = plan.buffers[port.buffer]
        if buffer.kind == "host":
            counts[port.buffer] = before
            before += pieces(buffer.bytes)
    return counts


class Player(TimedPlayer):
    """A plan ready to be interpreted. Not thread-safe."""

    def __init__(
        self,
        info: DeviceInfo,
        plan: Plan,
        program: CompiledProgram | None = None,
        subgroup: int | None = None,
    ) -> None:
        """`subgroup` is the number of work-items of a sub-group."""
        self.info, self.plan = info, plan
        self.timings: dict[str, float] = {}
        started = time.perf_counter()
        self.program = build(plan.program.text) if program is None else program
        self.timings["build"] = time.perf_counter() - started
        started = time.perf_counter()
        variant = plan.requirements.subgroups or info.subgroups
        self._subgroup = subgroup or (SUBGROUP if variant == "khr" else WARP)
        self._schedule = make_schedule(plan, self.program)
        self._buffers = Buffers(plan, self._schedule)
        self._random = np.random.default_rng(SEED)
        self._calls = [
            call
            for _, some in groupby(self._schedule, lambda item: item.launch)
            for call in self._bound([*some])
        ]
        self.timings["upload"] = time.perf_counter() - started

    def _bound(self, some: Sequence[ScheduledKernel]) -> list[KernelCall]:
        """Bind the kernels of one launch to the memory of their pointers."""
        tracked = frozenset().union(*(item.written for item in some))
        return [
            KernelCall(
                item.grid,
                [self._buffers.bind(item, n, tracked) for n in range(len(item.uses))],
                item.sizes,
                LaunchContext(
                    item.kernel.entry.name,
                    (item.published << LEVEL) + item.first,
                    item.released << LEVEL,
                    partial(self._owner, item),
                ),
                item.repeats,
            )
            for item in some
        ]

    def _owner(self, asked: ScheduledKernel, stamp: int) -> str:
        """Return the name of the work-item with a stamp."""
        number = stamp & (SEVERAL - 1)
        starts = [item.first for item in self._schedule]
        owner = self._schedule[bisect_right(starts, number) - 1]
        name = owner.grid.name(number - owner.first)
        return name if owner is asked else f"{name} of kernel '{owner.kernel.entry.name}'"

    def run(self, arrays: Sequence[np.ndarray], into: Into | None = None) -> Outputs:
        """Return the outputs for these inputs, in port order; see the protocol."""
        self._buffers.put(arrays)
        self.replay()
        results = self._buffers.take()
        if into is None:
            return results
        pairs = zip(results, into, strict=True)
        return [None if target is None else copied(result, target) for result, target in pairs]

    def run_bound(self, arrays: Sequence[Any], into: Sequence[Any] | None = None) -> Outputs:
        ports = (self.plan.inputs, self.plan.outputs)
        return run_through_host(self.run, ports, arrays, into)

    def open_slot(self, staged: bool = True) -> None:
        """Return None: only one run at a time is supported."""

    def replay(self) -> None:
        """Run all launches again on the data already on the device."""
        self._times()

    def _times(self, launches: range | None = None) -> list[float]:
        """Run some launches, or all of them in a new run; returns the seconds of each."""
        times = [0.0] * len(self.plan.launches)
        self._buffers.forget()
        if launches is None:
            self._buffers.begin()
        with np.errstate(all="ignore"):
            for item, call in zip(self._schedule, self._calls, strict=True):
                if launches is not None and item.launch not in launches:
                    continue
                started = time.perf_counter()
                item.kernel.run(call, self._subgroup, self._random)
                times[item.launch] += time.perf_counter() - started
        return times

    def reset(self) -> None:
        """Reset the model's variables to their initial values."""
        self._buffers.reset()

    def profile(self, arrays: Sequence[Any], runs: int) -> list[float]:
        """Return the shortest time of each launch in seconds; variables are restored."""
        self._buffers.put(fetch_inputs(arrays, self.plan.inputs))
        saved, best = self._buffers.saved(), [float("inf")] * len(self.plan.launches)
        for _ in range(runs):
            best = [min(pair) for pair in zip(best, self._times(), strict=True)]
        self._buffers.restore(saved)
        return best

    def binary(self) -> bytes:
        """Raise a DeviceError: kernels are not compiled."""
        why, fix = "kernels are interpreted, not compiled", "run without binaries"
        raise DeviceError("the interpreter provides no binary", why, fix)

    def poison(self) -> None:
        """Fill arena and outputs with NaN, so that unwritten values show up in the result."""
        self._buffers.poison()

    def close(self) -> None:
        """Free the memory."""
        self._schedule, self._calls = [], []


@dataclass(frozen=True)
class ScheduledKernel:
    """A kernel that runs over a grid: a launch, or a stage of one.

    It sees everything that was `published` at a level below its `released` level.
    """

    kernel: CompiledKernel
    grid: LaunchGrid
    uses: tuple[BufferUse, ...]
    sizes: tuple[int, ...]
    launch: int = 0  # number in the plan
    released: int = 0
    published: int = 0
    first: int = 0  # number of work-items of the plan before its own
    repeats: bool = False  # whether its last group runs twice, concurrently

    @property
    def items(self) -> int:
        return (self.grid.groups + self.repeats) * self.grid.items

    @property
    def written(self) -> frozenset[int]:
        """Buffers that it may write."""
        pairs = zip(self.kernel.kernel.buffers, self.uses, strict=True)
        return frozenset(use.buffer for argument, use in pairs if argument.pointer.writable)


def make_schedule(plan: Plan, program: CompiledProgram) -> list[ScheduledKernel]:
    """Return the kernels that a plan runs, in order."""
    scheduled: list[ScheduledKernel] = []
    level = items = 0
    for number, launch in enumerate(plan.launches):
        table = program.tables.get(launch.entry)
        if table is None:
            items_of_launch = [_launched(launch, program.kernels[launch.entry])]
        else:
            kernels = [program.kernels[name] for name in table.kernels]
            items_of_launch = [*_stages(_rows(plan, launch, table.stride), kernels)]
        for item in items_of_launch:
            released, published = item.released + level, item.published + level
            scheduled.append(
                replace(item, launch=number, released=released, published=published, first=items)
            )
            items += item.items
        level = scheduled[-1].published + 1
    return scheduled


def _launched(launch: Launch, kernel: CompiledKernel) -> ScheduledKernel:
    uses = tuple(one for one in launch.arguments if isinstance(one, BufferUse))
    sizes = tuple(one for one in launch.arguments if not isinstance(one, BufferUse))
    return ScheduledKernel(kernel, LaunchGrid.of(launch.grid, launch.local), uses, sizes)


def _rows(plan: Plan, launch: Launch, stride: int) -> list[list[int]]:
    """Read the stage table of a launch from the constants."""
    *_, stages, start = launch.arguments
    assert isinstance(stages, int)
    assert isinstance(start, int)
    table = plan.constants[start : start + stages * stride * 4].view(np.int32)
    return [[int(number) for number in row] for row in table.reshape(stages, stride)]


def _stages(
    rows: Sequence[Sequence[int]], kernels: Sequence[CompiledKernel]
) -> Iterator[ScheduledKernel]:
    """Yield the stages of a table.

    A grid barrier has two parts, where groups arrive and where they wait: stages in between may run
    concurrently with those before and after it.

    Small groups that share memory run side by side and wait together: GPUs repeat the last group in
    place of those that do not exist.
    """
    arrived = waited = 0
    for row in rows:
        kernel, flags = kernels[row[0]], row[5]
        waited = arrived if flags & AWAITS else waited
        buffers, sizes = len(kernel.kernel.buffers), len(kernel.kernel.sizes)
        pairs = row[HEAD : HEAD + 2 * buffers]
        uses = tuple(BufferUse(*pair) for pair in zip(pairs[::2], pairs[1::2], strict=True))
        numbers = tuple(row[HEAD + 2 * buffers : HEAD + 2 * buffers + sizes])
        x, y = row[3], row[4]
        local = LaunchGrid.of(kernel.kernel.local, (1,) * len(kernel.kernel.local)).counts
        grid = LaunchGrid((x, y, row[1] // (x * y)), local)
        repeats = kernel.shares_memory and grid.items % WARP != 0
        yield ScheduledKernel(kernel, grid, uses, numbers, 0, waited, arrived, repeats=repeats)
        arrived += flags & ARRIVES
