"""Which function writes which op; a decorator fills the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from fourfold.formats.tflite.write_graph.node_writer import NodeWriter
from fourfold.types import DType

Write = Callable[[NodeWriter], None]
Types = frozenset[DType]

NARROW: Types = frozenset({DType.I8, DType.U8})
SMALL: Types = NARROW | {DType.I16}
BYTES: Types = frozenset({DType.I8})
NIBBLES: Types = BYTES | {DType.I4}


class Grids(Enum):
    """What LiteRT's kernels ask of the grids of quantised inputs and outputs."""

    NONE = "it has no kernel for integers"
    ANY = "each may have its own"
    SAME = "all have one"
    FIXED = "that of the output is prescribed"


@dataclass(frozen=True)
class WriteRule:
    """How one op is written. `integers` are the types of quantised values that LiteRT's kernels
    know, where their grids are as `grids` says. `weights` and `bias` are the numbers of inputs;
    `hybrid` are the types that weights may have beside real values. `fuses` says that an
    activation that follows can be a setting of the operator.
    """

    write: Write
    grids: Grids = Grids.NONE
    integers: Types = frozenset()
    weights: int | None = None
    bias: int | None = None
    hybrid: Types = frozenset()
    fuses: bool = False


RULES: dict[str, WriteRule] = {}


def writes(
    *ops: str,
    grids: Grids = Grids.NONE,
    integers: Types = SMALL,
    weights: int | None = None,
    bias: int | None = None,
    hybrid: Types = frozenset(),
    fuses: bool = False,
) -> Callable[[Write], Write]:
    """Registers a function for ops of ours; its docstring says what it writes."""

    def register(write: Write) -> Write:
        for op in ops:
            RULES[op] = WriteRule(write, grids, integers, weights, bias, hybrid, fuses)
        return write

    return register
