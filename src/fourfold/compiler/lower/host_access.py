"""Inputs and outputs that kernels access in host memory themselves, without copies or commands.

Inputs cross the bus once, in a stage of their own, because layers read them again and again. They
are fetched piece by piece, while the host still copies later pieces to where the kernel finds them.

Outputs are written directly to host memory, unless another kernel reads them too or they are large:
kernels write few bytes at a time, and each write crosses the bus alone. Such outputs are delivered
by a stage at the end, whose work-items write whole lines together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fourfold.codegen.expression import Expression, Pointer, load, maximum, minimum, where
from fourfold.codegen.kernel import Kernel
from fourfold.compiler.lower.bind import Bound, bound_to
from fourfold.plan import Argument, Buffer, BufferUse
from fourfold.plan.host_protocol import BYTES, PIECE, pieces
from fourfold.types import DType

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
