"""WGSL names of types, numbers and identifiers."""

from __future__ import annotations

import struct

from fourfold.codegen.expression import Expression

KINDS = {"float": "f32", "half": "f16", "int": "i32", "uint": "u32", "bool": "bool"}
# Keywords and reserved words of the language.
_RESERVED = """
NULL Self abstract active alias alignas alignof as asm asm_fragment async attribute auto await
become bool break case cast catch class co_await co_return co_yield coherent column_major common
compile compile_fragment concept const const_assert const_cast consteval constexpr constinit
continue continuing crate debugger decltype default delete demote demote_to_helper diagnostic
discard do dynamic_cast else enable enum explicit export extends extern external fallthrough
false filter final finally fn for friend from fxgroup get goto groupshared highp if impl
implements import inline instanceof interface layout let loop lowp macro macro_rules match
mediump meta mod module move mut mutable namespace new nil noexcept noinline nointerpolation
non_coherent noncoherent noperspective null nullptr of operator override package packoffset
partition pass patch pixelfragment precise precision premerge priv protected pub public readonly
ref regardless register reinterpret_cast require requires resource restrict return self set
shared sizeof smooth snorm static static_assert static_cast std struct subroutine super switch
target template this thread_local throw trait true try type typedef typeid typename typeof union
unless unorm unsafe unsized use using var varying virtual volatile wgsl where while with
writeonly yield
"""
# Names that kernel texts use, and names that they define themselves.
_TAKEN = """
f16 f32 i32 u32 vec2 vec3 vec4 array atomic ptr bitcast select abs all atan2 ceil clamp cos exp
extractBits floor inverseSqrt log pack2x16float pow round sign sin sqrt tanh trunc
unpack2x16float atomicAnd atomicLoad atomicOr atomicStore workgroupBarrier workgroupUniformLoad
sizes gid lid wid group unfolded Sizes INFINITY NAN
"""
_AVOIDED = frozenset((_RESERVED + _TAKEN).split())


def identifier(title: str) -> str:
    """Return a kernel's name as a valid identifier.

    Other names in the text begin with an underscore.
    """
    if title.startswith("_"):
        return f"k{title}"
    return f"{title}_" if title in _AVOIDED else title


def type_name(kind: str, width: int = 1) -> str:
    """Return the type of a value."""
    return KINDS[kind] if width == 1 else f"vec{width}<{KINDS[kind]}>"


def literal(item: Expression) -> str:
    """Write a number; a vector repeats it in every lane.

    Infinities and NaN have no literal. They come from the bits of a private variable, which
    compilers do not evaluate before the kernel is built.
    """
    text = _number(item)
    return text if item.width == 1 else f"{type_name(item.kind, item.width)}({text})"


def _number(item: Expression) -> str:
    value, kind = item.operands[0], item.kind
    if kind == "bool":
        return "true" if value else "false"
    if kind == "uint":
        return f"{int(value)}u"
    if kind == "int":
        return "(-2147483647 - 1)" if value == -(2**31) else str(int(value))
    if value != value or value in (float("inf"), float("-inf")):
        text = "NAN" if value != value else "INFINITY" if value > 0 else "(-INFINITY)"
        return f"f16({text})" if kind == "half" else text
    suffix = "h" if kind == "half" else "f"
    rounded = struct.unpack("e" if kind == "half" else "f", _packed(value, kind))[0]
    return f"{rounded!r}{suffix}" if rounded >= 0 else f"({rounded!r}{suffix})"


def _packed(value: float, kind: str) -> bytes:
    """Pack the nearest number of a kind, clamped to its range."""
    largest = 65504.0 if kind == "half" else 3.4028234663852886e38
    return struct.pack("e" if kind == "half" else "f", min(max(value, -largest), largest))
