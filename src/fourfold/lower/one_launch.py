"""A plan's launches as stages of one launch: the table that a persistent kernel walks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import groupby, pairwise
from math import prod

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.kernel.context import KernelOptions
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.opencl.grid_barrier import STATE_WORDS
from fourfold.kernel.opencl.persistent import (
    ARRIVES,
    AWAITS,
    CHUNKS,
    ENTRY,
    GROUPS_EACH,
    STATE_STRIDE,
    persistent_text,
    row_stride,
)
from fourfold.kernel.opencl.stage import Kind, render_stage
from fourfold.kernel.statement import LocalArray
from fourfold.lower.assemble import CONSTANTS, Constants
from fourfold.lower.levels import LevelSpan
from fourfold.plan import Argument, BufferUse, Launch

GPU_ITEMS = 256
FEW = 4
FEW_CORES = 16
LITTLE_WORK = 2e7  # operations a launch
MUCH_MEMORY = 24 << 10  # bytes a launch for each unit: more than its few resident warps can ask for
LARGEST = 2**31 - 1
MOST_BUFFERS = (
    128  # compilers do not take expressions of any depth, and one buffer is chosen of all
)


@dataclass(frozen=True)
class Load:
    """What all launches do together: operations, and bytes of values that they read and write."""

    work: float
    moved: int


@dataclass(frozen=True)
class Stage:
    """A launch as one of many, and when groups that share it meet."""

    kernel: Kernel
    launch: Launch
    awaits: bool = True  # whether all must have done what came before their last meeting
    arrives: bool = True  # whether a group then says that it has come so far

    @property
    def counts(self) -> list[int]:
        """Virtual groups along each axis."""
        pairs = zip(self.launch.grid, self.launch.local, strict=True)
        counts = [size // local for size, local in pairs]
        return counts + [1] * (3 - len(counts))


def in_level_order(
    kernels: Sequence[Kernel], launches: Sequence[Launch], levels: Sequence[LevelSpan]
) -> list[Stage]:
    """Stages level by level. In each those come first that end with it; then groups arrive, and
    who crosses the meeting begins.
    """
    order = sorted(range(len(levels)), key=lambda number: (levels[number], number))
    stages = []
    for span, numbers in groupby(order, key=levels.__getitem__):
        some, meets = list(numbers), not span.crosses
        for number in some:
            first, last = meets and number == some[0], meets and number == some[-1]
            stages.append(Stage(kernels[number], launches[number], first, last))
    return stages


def refuses_one_launch(
    kernels: Sequence[Kernel], launches: Sequence[Launch], device: DeviceInfo
) -> str | None:
    """Why these launches cannot be one, or None."""
    if not device.is_cpu and not device.resident:
        return "groups of this device cannot wait for each other in a known way"
    items = 1 if device.is_cpu else GPU_ITEMS
    for kernel in kernels:
        size = kernel.local_items
        if size > items or items % size:
            return f"a kernel wants groups of {size}"
        if device.is_cpu and any(isinstance(item, LocalArray) for item in kernel.body):
            return "a kernel needs local memory"
    uses = [a for launch in launches for a in launch.arguments if isinstance(a, BufferUse)]
    if len({use.buffer for use in uses}) > MOST_BUFFERS:
        return "there are too many inputs and outputs"
    return "memory is too large for the table" if any(u.offset > LARGEST for u in uses) else None


def form_key(launches: Sequence[Launch]) -> str:
    """What a plan computes as a whole, as a key for the choice between one launch and several."""
    digest = blake2b("".join(str(launch) for launch in launches).encode(), digest_size=16)
    return f"launches of {len(launches)} kernels {digest.hexdigest()}"


def wants_one_launch(
    kernels: Sequence[Kernel],
    launches: Sequence[Launch],
    device: DeviceInfo,
    options: KernelOptions,
    choices: Mapping[str, str],
    load: Load,
) -> bool:
    """Whether to play the plan as one launch: as asked for, as tuned, or where launches are
    dear.
    """
    form = options.form
    if form == "auto":
        form = choices.get(
            form_key(launches), "one" if _is_dear(launches, device, load) else "list"
        )
    return (
        form == "one" and bool(launches) and refuses_one_launch(kernels, launches, device) is None
    )


def _is_dear(launches: Sequence[Launch], device: DeviceInfo, load: Load) -> bool:
    """Where a launch costs more than what replaces it: on a large GPU unless it moves so much that
    more groups than one a unit pay; on a few cores always; where groups must spin while they
    wait, only if a launch has little work.
    """
    if len(launches) < FEW:
        return False
    if not device.is_cpu:
        return load.moved / len(launches) < MUCH_MEMORY * device.compute_units
    little = load.work / len(launches) < LITTLE_WORK
    return device.compute_units <= FEW_CORES and (little or _can_sleep(device))


def _can_sleep(device: DeviceInfo) -> bool:
    """Whether groups that wait give the processor back. Drivers say for what they compile."""
    return all(word in device.version for word in ("x86_64", "linux"))


def join_launches(
    stages: Sequence[Stage],
    constants: Constants,
    buffers: int,
    device: DeviceInfo,
    words: int | None = None,
) -> tuple[str, Launch]:
    """The text of the persistent kernel and its launch; `buffers` counts all, the state last, and
    `words` is the one by which the kernel speaks with the host.
    """
    text, joined = join_runs([stages], constants, buffers, device, words)
    return text, joined[0]


def join_runs(
    runs: Sequence[Sequence[Stage]],
    constants: Constants,
    buffers: int,
    device: DeviceInfo,
    words: int | None = None,
) -> tuple[str, list[Launch]]:
    """The text of one persistent kernel, and for each run of stages the launch that walks it."""
    every = {id(stage.launch): stage for run in runs for stage in run}
    kinds, numbers = _kinds([*every.values()], shares=not device.is_cpu)
    kind_of = dict(zip(every, numbers, strict=True))
    items = 1 if device.is_cpu else GPU_ITEMS
    groups = device.compute_units * (GROUPS_EACH if device.is_cpu else 1)
    uses = tuple(BufferUse(number, 0) for number in range(buffers))
    joined = []
    for run in runs:
        table = np.zeros((len(run), row_stride(kinds)), np.int32)
        claims = (_claimed(stage, device) for stage in run)
        ways = [*(claims if device.is_cpu else _shared(run, groups))]
        for row, stage, way in zip(table, run, ways, strict=True):
            _fill(row, kind_of[id(stage.launch)], stage, way)
        arguments: tuple[Argument, ...] = (*uses, len(run), constants.offset(table))
        title = f"{len(run)} stages" + ("" if device.is_cpu else _meetings(ways))
        joined.append(Launch(ENTRY, arguments, (groups * items,), (items,), ENTRY, title, len(run)))
    return persistent_text(kinds, buffers, items, words), joined


def state_bytes(stages: int, device: DeviceInfo) -> int:
    """By what the groups of the persistent kernel tell each other how far they are."""
    if not device.is_cpu:
        return STATE_WORDS * 4
    parts = device.compute_units
    return (2 + parts // STATE_STRIDE + stages * (1 + parts)) * STATE_STRIDE * 4


def _kinds(stages: Sequence[Stage], shares: bool) -> tuple[list[Kind], list[int]]:
    """The distinct functions, and for every stage the number of its own."""
    kinds: dict[str, tuple[int, Kind]] = {}
    texts: dict[tuple[object, ...], str] = {}  # equal kernels are equal stages: rendered once
    numbers = []
    for kernel, launch in ((stage.kernel, stage.launch) for stage in stages):
        uses = [a for a in launch.arguments if isinstance(a, BufferUse)]
        constant = tuple(use.buffer == CONSTANTS for use in uses)
        kind = Kind(f"{kernel.title}_{len(kinds)}", kernel, constant, shares)
        same = (launch.entry, kernel.local, constant, kind.awaits)
        if same not in texts:
            texts[same] = render_stage(kind)
        text = texts[same]
        if text not in kinds:
            kinds[text] = (len(kinds), replace(kind, text=text))
        numbers.append(kinds[text][0])
    return [kind for _, kind in kinds.values()], numbers


def _fill(row: np.ndarray, number: int, stage: Stage, way: tuple[int, int]) -> None:
    """One row: kind, virtual groups, how they are given out, groups along x and y, and how once
    more; then pointers, then sizes.
    """
    counts = stage.counts
    numbers = [number, prod(counts), way[0], counts[0], counts[1], way[1]]
    for argument in stage.launch.arguments:
        if isinstance(argument, BufferUse):
            numbers += [argument.buffer, argument.offset]
        else:
            numbers.append(argument)
    row[: len(numbers)] = numbers


def _claimed(stage: Stage, device: DeviceInfo) -> tuple[int, int]:
    """How many virtual groups a chunk has, and along which axis a stage is cut into parts."""
    parts = device.compute_units
    return max(1, -(-prod(stage.counts) // (CHUNKS * parts))), _cut(stage.counts, parts)


def _shared(run: Sequence[Stage], groups: int) -> Iterator[tuple[int, int]]:
    """For each stage what to add to a group's number for that of its first virtual group, and when
    groups meet. They wait only if they have arrived: not before the first stage.

    After a meeting the first group gets the first one. Without one, dealing goes on where it
    ended: who got less of a stage begins with the next.
    """
    dealt, before, arrived = 0, False, False
    for stage in run:
        awaits = stage.awaits and arrived
        dealt = 0 if awaits and before else dealt
        yield -dealt % groups, stage.arrives * ARRIVES + awaits * AWAITS
        dealt, before = dealt + prod(stage.counts), stage.arrives
        arrived = before or (arrived and not awaits)


def _meetings(ways: Sequence[tuple[int, int]]) -> str:
    """How often groups meet, and how often a stage runs meanwhile."""
    flags = [bits for _, bits in ways]
    waits = [before for before, bits in pairwise(flags) if bits & AWAITS]
    crossed = sum(not before & ARRIVES for before in waits)
    return f", {len(waits)} meetings, {crossed} of them crossed"


def _cut(counts: Sequence[int], parts: int) -> int:
    """The axis along which a stage is cut into parts: the first that is long enough, else the
    longest. Pixels come before channels, and weights are cheaper to share than values.
    """
    enough = [axis for axis, count in enumerate(counts) if count >= parts > 1]
    return enough[0] if enough else max(range(len(counts)), key=lambda axis: counts[axis])
