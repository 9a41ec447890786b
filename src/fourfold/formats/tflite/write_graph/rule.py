"""The table of write rules by op, filled by a decorator."""

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
    """How LiteRT's kernels constrain the quantization of inputs and outputs."""

    NONE = "no integer kernel"
    ANY = "any quantization for each value"
    SAME = "one quantization for all values"
    FIXED = "a fixed output quantization"


@dataclass(frozen=True)
class WriteRule:
    """The rule for one op.

    `integers` are the quantized types that LiteRT's kernels support, with the constraint `grids`.
    `weights` and `bias` are indices of inputs. `hybrid` are weight types supported with float
    values. `fuses` is True if a following activation can be an option of the operator.
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
    """Register a function for ops; its docstring describes what it writes."""

    def register(write: Write) -> Write:
        for op in ops:
            RULES[op] = WriteRule(write, grids, integers, weights, bias, hybrid, fuses)
        return write

    return register
