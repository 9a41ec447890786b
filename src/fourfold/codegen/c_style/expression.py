"""Writes expressions for languages of the C family: loads, stores, conversions and literals."""

from __future__ import annotations

from collections.abc import Callable

from fourfold.codegen.c_style.dialect import Dialect
from fourfold.codegen.c_style.functions import function_of
from fourfold.codegen.expression import Expression, Pointer
from fourfold.codegen.kernel import Kernel
from fourfold.types import DType

_MATH = {"round_even": "rint", "round_away": "round"}  # other functions keep their names
_NATURAL = {"float": DType.F32, "half": DType.F16, "int": DType.I32}
_PRECEDENCE = {"*": 5, "/": 5, "%": 5, "+": 4, "-": 4}
_PRECEDENCE |= dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), 3)
_PRECEDENCE |= {"&&": 2, "||": 1, "where": 0, "guarded": 0}


class ExpressionWriter:
    """Writes expressions and collects the pointer casts that have to be declared for them."""

    def __init__(
        self, kernel: Kernel, dialect: Dialect, images: frozenset[str] = frozenset()
    ) -> None:
        self.kernel, self.dialect, self.images = kernel, dialect, images
        self.casts: dict[str, str] = {}

    def _space(self, pointer: Pointer) -> str:
        """Return the qualifiers and the type of the memory behind a pointer."""
        word = "const " if self._is_constant(pointer) else ""
        space = "" if pointer.private else self.dialect.words["global"]
        return f"{space}{word}{self.dialect.storages[pointer.dtype]} "

    def _is_constant(self, pointer: Pointer) -> bool:
        return not pointer.writable

    def _text_of(self, item: Expression, known: dict[int, str], outer: int = 0) -> str:
        if id(item) in known:
            return known[id(item)]
        inner = _PRECEDENCE.get(item.op)
        if inner is None or self._is_choice_call(item):
            return self._primary(item, known)
        text = self._binary(item, known, inner) if inner else self._choice(item, known)
        return f"({text})" if inner < outer else text

    def _binary(self, item: Expression, known: dict[int, str], level: int) -> str:
        a, b = item.operands
        text = f"{self._text_of(a, known, level)} {item.op} {self._text_of(b, known, level + 1)}"
        return self.dialect.truth(text, item) if item.kind == "bool" else text

    def _choice(self, item: Expression, known: dict[int, str]) -> str:
        condition, value, otherwise = item.operands
        if item.kind == "half" and condition.width > 1:
            text = self.dialect.half_condition(self._text_of(condition, known), item.width)
        else:
            text = self._text_of(condition, known, 1)
        return f"{text} ? {self._text_of(value, known, 1)} : {self._text_of(otherwise, known, 1)}"

    def _is_choice_call(self, item: Expression) -> bool:
        """Return whether a function selects lane by lane."""
        by_lane = item.op == "where" and item.operands[0].width > 1
        return by_lane and bool(self.dialect.choice_function)

    def _primary(self, item: Expression, known: dict[int, str]) -> str:
        operands, dialect = item.operands, self.dialect
        type_ = dialect.type_name(item.kind, item.width)

        def of(x: Expression, outer: int = 6) -> str:
            return self._text_of(x, known, outer)

        match item.op:
            case "const":
                return literal(item, dialect)
            case "name":
                return str(operands[0])
            case "global_id" | "local_id":
                return self._id(item.op, operands[0])
            case "bitcast":
                return dialect.bitcast(type_, of(operands[0], 0))
            case "splat" | "vector":
                text = dialect.vector(type_, ", ".join(of(x, 0) for x in operands))
                # True is 1 in a scalar and all bits set in a vector.
                zeros = dialect.vector(type_, "0")
                return f"({text} != {zeros})" if item.kind == "bool" else text
            case "lane":
                return dialect.lane(of(operands[0]), operands[0].width, operands[1])
            case "part":
                first = operands[1] * item.width
                return dialect.part(of(operands[0]), operands[0].width, first, item.width)
            case "neg":
                text = of(operands[0])
                return f"-({text})" if text.startswith("-") else f"-{text}"
            case "&" | "|" | "^" | "<<" | ">>":
                # Parenthesize, because the precedence of bit operators surprises readers.
                return f"({of(operands[0])} {item.op} {of(operands[1])})"
            case "convert":
                return dialect.convert(type_, of(operands[0], 0))
            case "where":
                return f"{dialect.choice_function}({', '.join(of(x, 0) for x in operands)})"
            case "math":
                function = _MATH.get(operands[0], operands[0])
                return f"{function}({', '.join(of(x, 0) for x in operands[1:])})"
            case "load" if operands[0].name in self.images:
                return self._texels(item, of)
            case "load":
                return self._load(item, of(operands[1], 0))
        return self._intrinsic(item, of)

    def _intrinsic(self, item: Expression, of: Callable[[Expression, int], str]) -> str:
        """Write an operation that the language lacks as a call of a prelude function."""
        first, *others = item.operands or ("",)
        if item.op == "subgroup_size":
            return self.dialect.subgroup_size
        if item.op == "load_words" and len(others) == 1:
            return f"{self._raw(first)}[{of(others[0], 0)}]"
        function = function_of(item)
        if isinstance(first, Pointer):
            title = self._raw(first) if item.op == "load_words" else first.name
            first = f"{title} + {of(others.pop(0), 5)}"
        else:
            first = of(first, 0)
            others = [] if item.op == "subgroup_shift" else others
        return f"{function}({', '.join([first, *(of(x, 0) for x in others)])})"

    def _texels(self, item: Expression, of: Callable[[Expression, int], str]) -> str:
        """Read an image, four numbers at a time."""
        (pointer, index), fours = item.operands, item.width // 4
        first = f"{pointer.name}_at + "
        first += of(index, 4) if fours == 1 else f"{fours} * {of(index, 6)}"
        positions = [first, *(f"{first} + {number}" for number in range(1, fours))]
        texels = ", ".join(self.dialect.texel(item.kind, pointer.name, at) for at in positions)
        type_ = self.dialect.type_name(item.kind, item.width)
        return texels if fours == 1 else self.dialect.vector(type_, texels)

    def _load(self, item: Expression, index: str) -> str:
        pointer, kind, width, dialect = item.operands[0], item.kind, item.width, self.dialect
        if pointer.local:
            return f"{pointer.name}[{index}]"
        if pointer.dtype is DType.F16 and kind == "float" and dialect.loads_halves:
            return dialect.load_half(width, index, self._scalar_pointer(pointer))
        element = f"{self._cast_to_vectors(pointer, width)}[{index}]"
        type_ = dialect.type_name(kind, width)
        if kind == "bool":
            zeros = "0" if width == 1 else dialect.vector(type_, "0")
            return f"{dialect.convert(type_, element)} != {zeros}"
        if _is_natural(kind, pointer.dtype):
            return element
        return dialect.convert(type_, element)

    def _store(self, pointer: Pointer, index: str, value: Expression, known: dict[int, str]) -> str:
        text, width, dialect = self._text_of(value, known), value.width, self.dialect
        if pointer.local:
            return f"{pointer.name}[{index}] = {text}"
        if pointer.dtype is DType.F16 and value.kind == "float" and dialect.loads_halves:
            return dialect.store_half(width, text, index, self._scalar_pointer(pointer))
        if value.kind == "bool":
            type_ = dialect.type_name("bool", width)
            text = f"({text}) & {'1' if width == 1 else dialect.vector(type_, '1')}"
        if not _is_natural(value.kind, pointer.dtype):
            stored = dialect.storages[pointer.dtype] + ("" if width == 1 else str(width))
            text = dialect.convert(stored, text)
        return f"{self._cast_to_vectors(pointer, width)}[{index}] = {text}"

    def _id(self, kind: str, axis: int) -> str:
        return self.dialect.identifier(kind, axis)

    def _raw(self, pointer: Pointer) -> str:
        """Return the pointer cast to pairs of 32-bit words."""
        title = f"{pointer.name}_raw"
        const = "const " if self._is_constant(pointer) else ""
        kind = f"{self.dialect.words['global']}{const}uint2"
        self.casts[title] = f"{kind} *{title} = ({kind} *){pointer.name};"
        return title

    def _shifted_pointer(self, target: Pointer, origin: Pointer, index: str) -> str:
        """Declare a pointer at an offset. Functions that load halves take a plain pointer."""
        space = self._space(origin)
        if target.width == 1 or self._by_function(origin):
            steps = "" if target.width == 1 else f" * {target.width}"
            return f"{space}*{target.name} = {origin.name} + {index}{steps}"
        typed = self._cast_to_vectors(origin, target.width)
        return f"{space.strip()}{target.width} *{target.name} = {typed} + {index}"

    def _by_function(self, pointer: Pointer) -> bool:
        """Return whether all elements behind the pointer are loaded and stored with functions."""
        by_function = self.dialect.loads_halves and self.kernel.real == "float"
        return by_function and pointer.dtype is DType.F16

    def _scalar_pointer(self, pointer: Pointer) -> str:
        """Return the pointer as functions for halves take it; they step over vectors themselves."""
        if pointer.width == 1 or self._by_function(pointer):
            return pointer.name
        return f"({self._space(pointer)}*){pointer.name}"

    def _cast_to_vectors(self, pointer: Pointer, width: int) -> str:
        """Return the pointer itself, or a cast of it to vectors of `width`."""
        if width == pointer.width:
            return pointer.name
        title = f"{pointer.name}_{width}"
        space = self._space(pointer).strip() + str(width)
        self.casts[title] = f"{space} *{title} = ({space} *){pointer.name};"
        return title


def _is_natural(kind: str, dtype: DType) -> bool:
    """Return whether values of a kind have the same form in memory."""
    return _NATURAL.get(kind) is dtype


def literal(item: Expression, dialect: Dialect) -> str:
    """Write a number as a literal; vectors repeat it in every lane."""
    value, kind = item.operands[0], item.kind
    if kind == "bool":
        text = ("1" if item.width == 1 else "-1") if value else "0"
    elif kind in ("int", "long", "uint"):
        text = "INT_MIN" if value == -(2**31) else str(int(value))
    elif value != value:
        text = "NAN"
    elif value in (float("inf"), float("-inf")):
        text = "INFINITY" if value > 0 else "-INFINITY"
    else:
        text = f"{value!r}f" if "." in repr(value) or "e" in repr(value) else f"{value!r}.0f"
    if kind == "half":
        text = f"(half){text}"
    return text if item.width == 1 else dialect.vector(dialect.type_name(kind, item.width), text)
