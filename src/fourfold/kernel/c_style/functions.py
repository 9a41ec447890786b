"""Which functions of the prelude the nodes of a kernel need."""

from __future__ import annotations

from fourfold.kernel.expression import Expression
from fourfold.kernel.statement import (
    AwaitCopies,
    CopyAhead,
    DiagonalMultiply,
    DotAccumulate,
    EndCopies,
    MatrixMultiply,
    Prefetch,
    StoreRounded,
    StoreRoundedBlock,
)
from fourfold.kernel.walk import Node

_FUNCTIONS = {
    "load_words": "load_if",
    "load_words_streamed": "load_streamed",
    "load_double_words": "load_two_if",
    "pack_halves": "pack_halves",
    "unpack_halves": "unpack_halves",
    "subgroup_exchange": "exchange",
    "load_bytes": "floats_of",
    "load_taps": "pair_taps",
}
_SHIFTS = {4: "from_next", -4: "from_last"}


def function_of(item: Node) -> str:
    """The function of the prelude that does what a node asks for; '' where none is needed."""
    match item:
        case Expression("load_words", (_, _)):
            return ""
        case Expression("subgroup_shift", (_, distance)):
            return _SHIFTS[distance.number]
        case Expression(op, _):
            return _FUNCTIONS.get(op, "")
        case DotAccumulate(target):
            return "add_dots" if target.width == 8 else "add_few_dots"
        case MatrixMultiply():
            return "matrix_multiply"
        case DiagonalMultiply():
            return "filter_multiply"
        case CopyAhead():
            return "copy_ahead"
        case EndCopies():
            return "end_copies"
        case AwaitCopies():
            return "await_copies"
        case Prefetch():
            return "fetch_ahead"
        case StoreRounded():
            return "store_floors" if item.zero is None else "store_bytes"
        case StoreRoundedBlock():
            return "store_block"
    return ""
