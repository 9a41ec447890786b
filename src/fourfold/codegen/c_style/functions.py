"""Maps kernel nodes to the prelude functions they need."""

from __future__ import annotations

from fourfold.codegen.expression import Expression
from fourfold.codegen.statement import (
    AwaitCopies,
    AwaitProducts,
    BeginProducts,
    CopyAhead,
    DiagonalMultiply,
    DotAccumulate,
    EndCopies,
    EndProducts,
    MatrixMultiply,
    Prefetch,
    ShowCopies,
    StoreRounded,
    StoreRoundedBlock,
    WarpgroupMultiply,
)
from fourfold.codegen.walk import Node

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
_WORDS = {
    EndCopies: "end_copies",
    AwaitCopies: "await_copies",
    ShowCopies: "show_copies",
    BeginProducts: "begin_products",
    EndProducts: "end_products",
    AwaitProducts: "await_products",
    MatrixMultiply: "matrix_multiply",
    DiagonalMultiply: "filter_multiply",
    CopyAhead: "copy_ahead",
    Prefetch: "fetch_ahead",
    StoreRoundedBlock: "store_block",
}
_SHIFTS = {4: "from_next", -4: "from_last"}


def warpgroup_function(blocks: int) -> str:
    """Return the name of the function that multiplies by `blocks` blocks of eight columns."""
    return f"warpgroup_multiply_{8 * blocks}"


def function_of(item: Node) -> str:
    """Return the prelude function that implements a node; '' if none is needed."""
    match item:
        case Expression("load_words", (_, _)):
            return ""
        case Expression("subgroup_shift", (_, distance)):
            return _SHIFTS[distance.number]
        case Expression(op, _):
            return _FUNCTIONS.get(op, "")
        case DotAccumulate(target):
            return "add_dots" if target.width == 8 else "add_few_dots"
        case WarpgroupMultiply():
            return warpgroup_function(len(item.targets))
        case StoreRounded():
            return "store_floors" if item.zero is None else "store_bytes"
    return _WORDS.get(type(item), "")
