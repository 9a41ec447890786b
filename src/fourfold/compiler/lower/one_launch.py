"""Decides whether a plan's launches become stages of one launch, and in which order.

Kernels of one launch access inputs and outputs in host memory themselves, without copies or
commands. Inputs cross the bus once, in a stage of their own, because layers read them again and
again. They are fetched piece by piece, while the host still copies later pieces to where the kernel
finds them.

Outputs are written directly to host memory, unless another kernel reads them too or they are large:
kernels write few bytes at a time, and each write crosses the bus alone. Such outputs are delivered
by a stage at the end, whose work-items write whole lines together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby

from fourfold.codegen.context import Target
from fourfold.codegen.expression import Expression, Pointer, load, maximum, minimum, where
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.language import Language, Persistent
from fourfold.codegen.stage import MAX_BYTES_PER_UNIT, Stage
from fourfold.codegen.stage_table import row_stride
from fourfold.compiler.lower.bind import Bound, bound_to
from fourfold.compiler.lower.levels import LevelSpan
from fourfold.device import DeviceInfo
from fourfold.plan import Argument, Buffer, BufferUse, Launch
from fourfold.plan.host_protocol import BYTES, PIECE, pieces
from fourfold.types import DType

MIN_LAUNCHES = 4
MAX_STAGES = 4096  # a longer list would take long to arrange
MAX_CPU_CORES = 16
MAX_LAUNCH_FLOPS = 2e7  # operations per launch


@dataclass(frozen=True)
class Load:
    """The totals of all launches: operations, and bytes of values that they read and write."""

    work: float
    moved: int


def in_level_order(bound: Sequence[Bound], levels: Sequence[LevelSpan]) -> tuple[Stage, ...]:
    """Return stages level by level.

    In each level, stages that end with it come first; then groups arrive at the barrier, and stages
    that cross it begin.
    """
    order = sorted(range(len(levels)), key=lambda number: (levels[number], number))
    stages = []
    for span, numbers in groupby(order, key=levels.__getitem__):
        members, ends = list(numbers), not span.crosses
        for number in members:
            first, last = ends and number == members[0], ends and number == members[-1]
            item = bound[number]
            launch = item.launch
            stages.append(Stage(item.kernel, launch.arguments, first, last, launch.node))
    return tuple(stages)


def as_stages(bound: Sequence[Bound]) -> tuple[Stage, ...]:
    """Return stages one after the other, with a grid barrier between each two."""
    return tuple(Stage(item.kernel, item.launch.arguments) for item in bound)


def table_bytes(bound: Sequence[Bound], ports: int) -> int:
    """Return the maximum size of the table of one launch: each port may have a stage of its own."""
    if not bound:
        return 0
    return 4 * row_stride([item.kernel for item in bound]) * (len(bound) + ports)


def form_key(launches: Sequence[Launch]) -> str:
    """Return a key of the whole plan, for the choice between one launch and several.

    Entry points have no names before the text is written, so titles are used instead.
    """
    lines = (str(launch._replace(entry=launch.title)) for launch in launches)
    digest = blake2b("".join(lines).encode(), digest_size=16)
    return f"launches of {len(launches)} kernels {digest.hexdigest()}"


def wants_one_launch(
    bound: Sequence[Bound],
    language: Language,
    target: Target,
    choices: Mapping[str, str],
    load: Load,
) -> bool:
    """Return whether to run as one launch: as requested, as tuned, or if launches are costly.

    The language must support it and the device be able to run it.
    """
    persistent, form = language.persistent, target.options.form
    if persistent is None or not 0 < len(bound) <= MAX_STAGES:
        return False
    if form == "auto":
        expensive = _launches_are_expensive(len(bound), persistent, target.device, load)
        key = form_key([item.launch for item in bound])
        form = choices.get(key, "one" if expensive else "list")
    return form == "one" and persistent.refuses(as_stages(bound), target.device) is None


def _launches_are_expensive(
    launches: int, persistent: Persistent, device: DeviceInfo, load: Load
) -> bool:
    """Return whether launches cost more than grid barriers.

    That holds on a GPU, unless launches move so much memory that more than one group per compute
    unit pays off. It holds on CPUs with few cores, if waiting groups sleep; if they must spin, only
    if launches have little work.
    """
    if launches < MIN_LAUNCHES:
        return False
    if not device.is_cpu:
        return load.moved / launches < MAX_BYTES_PER_UNIT * device.compute_units
    has_little_work = load.work / launches < MAX_LAUNCH_FLOPS
    return device.compute_units <= MAX_CPU_CORES and (
        has_little_work or persistent.waits_cheaply(device)
    )


ITEMS = 128
VECTOR = 16  # bytes
MAX_DIRECT_OUTPUT_BYTES = 16 << 10  # bytes; larger outputs are delivered by a stage of their own
VECTORS = PIECE // VECTOR // ITEMS  # loads that a work-item issues before the first arrives


@dataclass(frozen=True)
class HostPorts:
    """Kernels with inputs and outputs in host memory.

    `fetched` kernels at the start fetch inputs and `delivered` ones at the end deliver outputs.
    `moved` maps the buffers of ports to their new ones.
    """

    bound: tuple[Bound, ...]
    fetched: int
    delivered: int
    buffers: tuple[Buffer, ...]
    moved: dict[int, int]
    protocol: int | None  # the buffer for the handshake between kernel and host


def use_host_ports(bound: Sequence[Bound], buffers: Sequence[Buffer]) -> HostPorts:
    """Return the kernels with inputs and outputs in host memory."""
    read = _read_buffers(bound)
    fetches: list[Bound] = []
    deliveries: list[Bound] = []
    all_buffers, moved, fetched_pieces = [*buffers], {}, 0
    for number, buffer in enumerate(buffers):
        if not buffer.bytes:
            continue
        if (
            buffer.kind == "output"
            and number not in read
            and buffer.bytes <= MAX_DIRECT_OUTPUT_BYTES
        ):
            all_buffers[number] = Buffer(buffer.name, "host", buffer.bytes)
        elif buffer.kind == "output":
            moved[number] = len(all_buffers)
            all_buffers.append(Buffer(buffer.name, "host", buffer.bytes))
            deliveries.append(_deliver(buffer, number, moved[number]))
        elif buffer.kind == "input" and number in read:
            moved[number] = len(all_buffers)
            all_buffers.append(Buffer(buffer.name, "host", buffer.bytes))
            fetches.append(_fetch(buffer, moved[number], number, fetched_pieces))
            fetched_pieces += pieces(buffer.bytes)
    protocol = len(all_buffers) if fetches else None
    if fetches:
        all_buffers.append(Buffer("host_protocol", "host_protocol", BYTES))
    return HostPorts(
        bound=(*fetches, *bound, *deliveries),
        fetched=len(fetches),
        delivered=len(deliveries),
        buffers=tuple(all_buffers),
        moved=moved,
        protocol=protocol,
    )


def _read_buffers(bound: Sequence[Bound]) -> set[int]:
    numbers = set()
    for item in bound:
        uses = [use for use in item.launch.arguments if isinstance(use, BufferUse)]
        pairs = zip(item.kernel.buffers, uses, strict=True)
        numbers |= {use.buffer for argument, use in pairs if not argument.pointer.writable}
    return numbers


def _fetch(buffer: Buffer, source: int, target: int, before: int) -> Bound:
    """Copy an input, each piece as soon as the host has provided it.

    `before` pieces belong to other inputs. Memory beyond the end exists and is unused. The first
    group copies nothing: it polls the host.
    """
    kernel = Kernel("fetch", literal=False)
    host_data = kernel.pointer("given", DType.I32, source)
    device_data = kernel.pointer("taken", DType.I32, target, writable=True)
    count = pieces(buffer.bytes)
    (item,) = kernel.ids((count + 1) * ITEMS, local=(ITEMS,), stay=True)
    lane = kernel.let(kernel.local_id(0), "lane")
    ahead, end = kernel.size("before", before), kernel.size("end", before + count)
    kernel.await_host(where(item < ITEMS, end, ahead + item / ITEMS), item < 1)
    _copy(kernel, (host_data, device_data), item - ITEMS, lane, buffer.bytes)
    return _bound(kernel, (source, target), f"{buffer.name} from host memory")


def _deliver(buffer: Buffer, source: int, target: int) -> Bound:
    """Copy an output to host memory, and nothing beyond its end, which may be the caller's."""
    kernel = Kernel("deliver", literal=False)
    device_data = kernel.pointer("made", DType.I32, source)
    host_data = kernel.pointer("given", DType.I32, target, writable=True)
    (item,) = kernel.ids(pieces(buffer.bytes) * ITEMS, local=(ITEMS,), stay=True)
    lane = kernel.let(kernel.local_id(0), "lane")
    vectors, tail_bytes = divmod(buffer.bytes, VECTOR)
    if vectors:
        _copy(kernel, (device_data, host_data), item, lane, vectors * VECTOR)
    buffers = [source, target]
    if tail_bytes:
        last_made = kernel.pointer("last_made", DType.U8, source)
        last_given = kernel.pointer("last_given", DType.U8, target, writable=True)
        index = kernel.let(kernel.size("whole", vectors * VECTOR) + item, "place")
        with kernel.when(item < kernel.size("rest", tail_bytes)):
            kernel.store(last_given, index, load(last_made, index, "int"))
        buffers *= 2
    return _bound(kernel, buffers, f"{buffer.name} to host memory")


def _copy(
    kernel: Kernel, pointers: tuple[Pointer, Pointer], item: Expression, lane: Expression, size: int
) -> None:
    """Copy a group's piece, neighbours side by side; the group before the first has none."""
    start = kernel.let((item - lane) * VECTORS + lane, "start")
    last = kernel.size("vectors", -(-size // VECTOR)) - 1
    locations = [start + number * ITEMS for number in range(VECTORS)]
    # Indices out of range are clamped: copying a vector twice costs nothing.
    indices = [kernel.let(minimum(maximum(index, 0), last), "place") for index in locations]
    values = [kernel.let(load(pointers[0], index, "int", 4), "value") for index in indices]
    for index, value in zip(indices, values, strict=True):
        kernel.store(pointers[1], index, value)


def _bound(kernel: Kernel, buffers: Sequence[int], what: str) -> Bound:
    uses = (BufferUse(number, 0) for number in buffers)
    arguments: tuple[Argument, ...] = (*uses, *kernel.sizes.values())
    return bound_to(kernel, arguments, what)
