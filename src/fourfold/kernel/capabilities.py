"""What a language can say: lowering asks, and writes nothing that it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fourfold.kernel.signatures import KINDS, WIDTHS
from fourfold.types import DType

# What any kernel may have in memory.
STORAGES = frozenset(
    (DType.F32, DType.F16, DType.I8, DType.U8, DType.I16, DType.U16, DType.I32, DType.U32)
) | {DType.I64, DType.BOOL}


@dataclass(frozen=True)
class Capabilities:
    """What the kernels of a language may hold, beside what each of them can say.

    All languages compute with floats, ints and truth, alone and by fours, and take a buffer as a
    place in it: its start and an offset in elements. Hints, such as `Prefetch`, may go unsaid.
    """

    language: str  # its name, for messages
    kinds: frozenset[str] = frozenset(KINDS)
    widths: frozenset[int] = frozenset(WIDTHS)
    storages: frozenset[DType] = STORAGES  # element types in memory
    shifted_pointers: bool = True  # pointers to what lies further on: `Shift`
    private_arrays: bool = True
    local_memory: bool = True  # and barriers
    declared_local_memory: int = 0  # bytes; for more a launch must ask (0: never)
    images: bool = False
    host_addresses: bool = False  # buffers that are known by an address of the host alone
    matrix_fragments: bool = False  # raw words, and halves in them, included
    async_copies: bool = False  # to local memory, while the kernel goes on
    warpgroups: bool = False  # products of what is there by four warps at once, meanwhile
    separate_writes: bool = False  # a launch had better read no buffer that it writes
    most_groups: int | None = None  # along an axis of a grid: what is more goes along the next
    # Whether compiling is dear, as where every start does it: kernels had better share a text.
    few_kernels: bool = False
    # Whether some who take it stop loops after a while: plans say how long theirs are.
    counted_rounds: bool = False
    extents: bool = False  # launches say how many elements there are behind each pointer
    # Instruction sets for dot products of bytes; 'x86' has those that round to bytes as well.
    dot_products: frozenset[str] = frozenset()
    # Those for sub-groups, and how many work-items exchange values: None where kernels must ask.
    subgroups: Mapping[str, int | None] = field(default_factory=dict, hash=False)
