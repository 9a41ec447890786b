"""Features of a kernel language; lowering writes only kernels that the language can express."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fourfold.codegen.signatures import KINDS, WIDTHS
from fourfold.types import DType

# Element types that any kernel may use in memory.
STORAGES = frozenset(
    (DType.F32, DType.F16, DType.I8, DType.U8, DType.I16, DType.U16, DType.I32, DType.U32)
) | {DType.I64, DType.BOOL}


@dataclass(frozen=True)
class Capabilities:
    """Features of a language that kernels may use.

    Every language computes with floats, ints and bools, as scalars and as vectors of four, and
    takes a buffer as a start and an offset in elements. Hints such as `Prefetch` may be ignored.
    """

    language: str  # name of the language, for messages
    kinds: frozenset[str] = frozenset(KINDS)
    widths: frozenset[int] = frozenset(WIDTHS)
    storages: frozenset[DType] = STORAGES  # element types in memory
    shifted_pointers: bool = True  # pointers at an offset: `Shift`
    private_arrays: bool = True
    local_memory: bool = True  # and barriers
    # bytes that a kernel may declare; launches allocate more (0: no limit)
    declared_local_memory: int = 0
    images: bool = False
    host_addresses: bool = False  # buffers identified by a host address alone
    matrix_fragments: bool = False  # including raw words and halves packed in them
    async_copies: bool = False  # to local memory, while the kernel continues
    warpgroups: bool = False  # asynchronous products of local memory by four warps
    separate_writes: bool = False  # a launch should not read a buffer that it writes
    max_groups: int | None = None  # along one axis of a grid; the excess goes along the next axis
    # True if compiling is expensive, for example because every start compiles: kernels should share
    # text.
    few_kernels: bool = False
    # True if some implementations stop long loops: plans record the lengths of theirs.
    counted_rounds: bool = False
    extents: bool = False  # launches pass the number of elements behind each pointer
    # Instruction sets for dot products of bytes; 'x86' also has instructions that round to bytes.
    dot_products: frozenset[str] = frozenset()
    # Sub-group features, and how many work-items exchange values: None if kernels must query it.
    subgroups: Mapping[str, int | None] = field(default_factory=dict, hash=False)
