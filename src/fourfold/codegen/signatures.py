"""The closed set of ops of the kernel language, and the operands each of them takes."""

from __future__ import annotations

from collections.abc import Callable

from fourfold.codegen.expression import BINARY_MATH, UNARY_MATH, Expression, Pointer
from fourfold.types import DType

KINDS = ("float", "half", "int", "uint", "long", "bool")
WIDTHS = (1, 2, 4, 8, 16)
_REAL = ("float", "half")
_WHOLE = ("int", "long")
_WORDS = ("float", "int", "uint")  # kinds of 32 bits
_SHIFTS = (-4, 4)  # lanes from one row of a fragment to the next

Fits = Callable[[Expression], bool]


def _same_type(item: Expression, *operands: Expression) -> bool:
    """Return whether operands have the kind and width of the result."""
    return all((one.kind, one.width) == (item.kind, item.width) for one in operands)


def _has_type(item: object, kind: str, width: int = 1) -> bool:
    return isinstance(item, Expression) and (item.kind, item.width) == (kind, width)


def _is_index(item: object) -> bool:
    return isinstance(item, Expression) and item.kind in _WHOLE and item.width == 1


def _const(item: Expression) -> bool:
    return len(item.operands) == 1 and isinstance(item.operands[0], bool | int | float)


def _name(item: Expression) -> bool:
    return len(item.operands) == 1 and str(item.operands[0]).isidentifier()


def _id(item: Expression) -> bool:
    return _has_type(item, "int") and item.operands[0] in (0, 1, 2)


def _arithmetic(item: Expression) -> bool:
    real = item.op != "%" and item.kind in _REAL
    return (
        (real or item.kind in _WHOLE)
        and len(item.operands) == 2
        and _same_type(item, *item.operands)
    )


def _bitwise(item: Expression) -> bool:
    return item.kind == "int" and len(item.operands) == 2 and _same_type(item, *item.operands)


def _negated(item: Expression) -> bool:
    return item.kind in _REAL + _WHOLE and _same_type(item, *item.operands)


def _comparison(item: Expression) -> bool:
    a, b = item.operands
    ordered = item.op in ("==", "!=") or a.kind != "bool"
    return _has_type(item, "bool", a.width) and _same_type(a, b) and ordered


def _logic(item: Expression) -> bool:
    return item.kind == "bool" and _same_type(item, *item.operands)


def _choice(item: Expression) -> bool:
    condition, *values = item.operands
    return (
        condition.kind == "bool"
        and condition.width in (1, item.width)
        and _same_type(item, *values)
    )


def _guarded(item: Expression) -> bool:
    condition, *values = item.operands
    return _has_type(condition, "bool") and len(values) == 2 and _same_type(item, *values)


def _splat(item: Expression) -> bool:
    return item.width > 1 and _has_type(item.operands[0], item.kind)


def _vector(item: Expression) -> bool:
    widths = sum(one.width for one in item.operands)
    return widths == item.width and all(one.kind == item.kind for one in item.operands)


def _part(item: Expression) -> bool:
    source, index = item.operands
    return source.kind == item.kind and index in range(source.width // item.width)


def _convert(item: Expression) -> bool:
    (value,) = item.operands
    numbers = "bool" not in (item.kind, value.kind)
    return numbers and item.kind != value.kind and item.width == value.width


def _bitcast(item: Expression) -> bool:
    (value,) = item.operands
    return item.kind in _WORDS and value.kind in _WORDS and item.width == value.width


def _math(item: Expression) -> bool:
    function, *values = item.operands
    functions = UNARY_MATH if len(values) == 1 else BINARY_MATH
    counted = len(values) in (1, 2) and function in functions
    return counted and item.kind in _REAL and _same_type(item, *values)


def _load(item: Expression) -> bool:
    pointer, index = item.operands
    words = item.kind == "uint" and not pointer.local
    return _is_index(index) and holds(pointer, item) and not words


def stores(pointer: Pointer, value: Expression) -> bool:
    """Return whether a value can be stored through a pointer."""
    return pointer.writable and holds(pointer, value)


def holds(pointer: Pointer, value: Expression) -> bool:
    """Return whether elements behind a pointer can be read or written as such a value.

    Bools are stored only as bools, integers only as integers, and a pointer to vectors takes only
    vectors of its width.
    """
    if pointer.local:
        return True  # the element type is checked against the array's declaration
    if pointer.width not in (1, value.width):
        return False
    if pointer.dtype is DType.BOOL or value.kind == "bool":
        return pointer.dtype is DType.BOOL and value.kind == "bool"
    return value.kind in _REAL or (value.kind == "int" and not pointer.dtype.is_float)


def _pointed(dtype: DType, result: str, width: int) -> Fits:
    """Return the rule of an op on a pointer, an index, and optional conditions."""

    def fits(item: Expression) -> bool:
        pointer, index, *more = item.operands
        inside = all(one.kind in ("bool", "int") and one.width == 1 for one in more)
        return (
            _has_type(item, result, width)
            and pointer.dtype is dtype
            and _is_index(index)
            and inside
        )

    return fits


def _takes(result: tuple[str, int], *expected: tuple[str, int]) -> Fits:
    """Return the rule of an op on operands of these kinds and widths."""

    def fits(item: Expression) -> bool:
        pairs = zip(item.operands, expected, strict=False)
        counted = len(item.operands) == len(expected)
        return (
            _has_type(item, *result)
            and counted
            and all(_has_type(one, *type_) for one, type_ in pairs)
        )

    return fits


def _shift(item: Expression) -> bool:
    words, distance = item.operands
    return _has_type(item, "uint", 2) and _has_type(words, "uint", 2) and distance.number in _SHIFTS


def _taps(item: Expression) -> bool:
    pointer = item.operands[0]
    return pointer.private and _pointed(DType.I32, "int", 8)(item)


_EXCHANGE = _takes(("float", 1), ("float", 1), ("int", 1))
SIGNATURES: dict[str, Fits] = {
    "const": _const,
    "name": _name,
    "global_id": _id,
    "local_id": _id,
    "neg": _negated,
    **dict.fromkeys(("+", "-", "*", "/", "%"), _arithmetic),
    **dict.fromkeys(("&", "|", "^", "<<", ">>"), _bitwise),
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), _comparison),
    **dict.fromkeys(("&&", "||"), _logic),
    "where": _choice,
    "guarded": _guarded,
    "splat": _splat,
    "vector": _vector,
    "lane": _part,
    "part": _part,
    "convert": _convert,
    "bitcast": _bitcast,
    "math": _math,
    "load": _load,
    "load_words": _pointed(DType.F16, "uint", 2),
    "load_words_streamed": _pointed(DType.F16, "uint", 2),
    "load_double_words": _pointed(DType.F16, "uint", 4),
    "load_bytes": _pointed(DType.U8, "float", 8),
    "load_taps": _taps,
    "pack_halves": _takes(("uint", 2), ("float", 4)),
    "unpack_halves": _takes(("float", 4), ("uint", 2)),
    "subgroup_size": _takes(("int", 1)),
    "subgroup_exchange": lambda item: _EXCHANGE(item) and item.operands[1].number is not None,
    "subgroup_shift": _shift,
}
# Ops that only some devices and languages support.
FRAGMENT_OPS = frozenset(
    ("load_words", "load_words_streamed", "load_double_words", "pack_halves", "unpack_halves")
) | {"subgroup_shift"}
SUBGROUP_OPS = frozenset(("subgroup_size", "subgroup_exchange"))
BYTE_OPS = frozenset(("load_bytes", "load_taps"))
SPECIAL_OPS = FRAGMENT_OPS | SUBGROUP_OPS | BYTE_OPS
