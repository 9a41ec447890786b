"""Inputs and outputs that kernels reach in host memory by themselves: no copies, no commands.

What goes in crosses the bus once, in a stage of its own, since the layers read it again and again.
It does so piece by piece, while the host still copies the next ones to where the kernel finds them.
What comes out is written where the caller finds it, unless another kernel reads it too, or it is
much: a kernel writes few bytes at a time, and each write crosses the bus alone. That is delivered
by a stage of its own at the end, whose work-items write whole lines together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fourfold.kernel.expression import Expression, Pointer, load, maximum, minimum, where
from fourfold.kernel.kernel import Kernel
from fourfold.lower.bind import Bound, bound_to
from fourfold.plan import Argument, Buffer, BufferUse
from fourfold.plan.host_protocol import BYTES, PIECE, pieces
from fourfold.types import DType

ITEMS = 128
VECTOR = 16  # bytes
MUCH = 16 << 10  # bytes
VECTORS = PIECE // VECTOR // ITEMS  # that a work-item asks for before the first has come


@dataclass(frozen=True)
class HostPorts:
    """Kernels between those that fetch inputs and those that deliver outputs, so many of each; all
    buffers, and where ports moved to.
    """

    bound: tuple[Bound, ...]
    fetched: int
    delivered: int
    buffers: tuple[Buffer, ...]
    moved: dict[int, int]
    protocol: int | None  # the buffer by which kernel and host tell each other how far they are


def use_host_ports(bound: Sequence[Bound], buffers: Sequence[Buffer]) -> HostPorts:
    """The same work, its inputs and outputs in host memory."""
    read = _read_buffers(bound)
    fetches: list[Bound] = []
    deliveries: list[Bound] = []
    made, moved, given = [*buffers], {}, 0
    for number, buffer in enumerate(buffers):
        if not buffer.bytes:
            continue
        if buffer.kind == "output" and number not in read and buffer.bytes <= MUCH:
            made[number] = Buffer(buffer.name, "host", buffer.bytes)
        elif buffer.kind == "output":
            moved[number] = len(made)
            made.append(Buffer(buffer.name, "host", buffer.bytes))
            deliveries.append(_deliver(buffer, number, moved[number]))
        elif buffer.kind == "input" and number in read:
            moved[number] = len(made)
            made.append(Buffer(buffer.name, "host", buffer.bytes))
            fetches.append(_fetch(buffer, moved[number], number, given))
            given += pieces(buffer.bytes)
    protocol = len(made) if fetches else None
    if fetches:
        made.append(Buffer("host_protocol", "host_protocol", BYTES))
    return HostPorts(
        bound=(*fetches, *bound, *deliveries),
        fetched=len(fetches),
        delivered=len(deliveries),
        buffers=tuple(made),
        moved=moved,
        protocol=protocol,
    )


def _read_buffers(bound: Sequence[Bound]) -> set[int]:
    found = set()
    for item in bound:
        uses = [use for use in item.launch.arguments if isinstance(use, BufferUse)]
        pairs = zip(item.kernel.buffers, uses, strict=True)
        found |= {use.buffer for argument, use in pairs if not argument.pointer.writable}
    return found


def _fetch(buffer: Buffer, source: int, target: int, before: int) -> Bound:
    """Copy a buffer, of which so many pieces of others come `before`, each as soon as it is there.

    What is beyond its end is there, and unused. The first group has no piece: it asks the host.
    """
    kernel = Kernel("fetch", literal=False)
    given = kernel.pointer("given", DType.I32, source)
    taken = kernel.pointer("taken", DType.I32, target, writable=True)
    count = pieces(buffer.bytes)
    (item,) = kernel.ids((count + 1) * ITEMS, local=(ITEMS,), stay=True)
    lane = kernel.let(kernel.local_id(0), "lane")
    ahead, end = kernel.size("before", before), kernel.size("end", before + count)
    kernel.await_host(where(item < ITEMS, end, ahead + item / ITEMS), item < 1)
    _copy(kernel, (given, taken), item - ITEMS, lane, buffer.bytes)
    return _bound(kernel, (source, target), f"{buffer.name} from host memory")


def _deliver(buffer: Buffer, source: int, target: int) -> Bound:
    """Copy a buffer to where the host finds it, and nothing beyond its end: a caller may have
    something else there.
    """
    kernel = Kernel("deliver", literal=False)
    made = kernel.pointer("made", DType.I32, source)
    given = kernel.pointer("given", DType.I32, target, writable=True)
    (item,) = kernel.ids(pieces(buffer.bytes) * ITEMS, local=(ITEMS,), stay=True)
    lane = kernel.let(kernel.local_id(0), "lane")
    vectors, rest = divmod(buffer.bytes, VECTOR)
    if vectors:
        _copy(kernel, (made, given), item, lane, vectors * VECTOR)
    buffers = [source, target]
    if rest:
        last_made = kernel.pointer("last_made", DType.U8, source)
        last_given = kernel.pointer("last_given", DType.U8, target, writable=True)
        place = kernel.let(kernel.size("whole", vectors * VECTOR) + item, "place")
        with kernel.when(item < kernel.size("rest", rest)):
            kernel.store(last_given, place, load(last_made, place, "int"))
        buffers *= 2
    return _bound(kernel, buffers, f"{buffer.name} to host memory")


def _copy(
    kernel: Kernel, pointers: tuple[Pointer, Pointer], item: Expression, lane: Expression, size: int
) -> None:
    """Copy the piece of a group, neighbours side by side; the one before the first has none."""
    start = kernel.let((item - lane) * VECTORS + lane, "start")
    last = kernel.size("vectors", -(-size // VECTOR)) - 1
    locations = [start + number * ITEMS for number in range(VECTORS)]
    # A vector that exists stands in for those that do not: to copy it twice costs nothing.
    known = [kernel.let(minimum(maximum(place, 0), last), "place") for place in locations]
    values = [kernel.let(load(pointers[0], place, "int", 4), "value") for place in known]
    for place, value in zip(known, values, strict=True):
        kernel.store(pointers[1], place, value)


def _bound(kernel: Kernel, buffers: Sequence[int], what: str) -> Bound:
    uses = (BufferUse(number, 0) for number in buffers)
    arguments: tuple[Argument, ...] = (*uses, *kernel.sizes.values())
    return bound_to(kernel, arguments, what)
