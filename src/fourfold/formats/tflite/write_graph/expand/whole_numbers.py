"""Expansion of arithmetic on narrow integers to i32; LiteRT would take them for quantized."""

from __future__ import annotations

from fourfold.formats.tflite.write_graph.expansion import Expansion, expands
from fourfold.types import DType

_NARROW = frozenset({DType.I8, DType.I16, DType.U8, DType.U16})
_FIRST = ("absolute", "add", "cumsum", "div", "floor_div", "floor_mod", "mul", "negate", "sign")
_SECOND = ("squared_difference", "sub", "sum")
_COMPARING = ("equal", "greater", "greater_equal", "less", "less_equal", "not_equal")


@expands(*_FIRST, *_SECOND, *_COMPARING)
def narrow(to: Expansion) -> bool:
    """the op itself in i32, cast back to the narrow type."""
    dtype = to.type(to.input(0)).dtype
    if dtype not in _NARROW:
        return False
    wide = [to.cast(to.input(index), DType.I32) for index in range(len(to.node.inputs))]
    if to.node.op in _COMPARING:
        return to.give(to.node.op, *wide, attributes=to.node.attributes)
    result = to.add(to.node.op, *wide, attributes=to.node.attributes)
    return to.give_cast(result, dtype)
