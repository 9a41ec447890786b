"""How OpenCL C writes expressions: loads, stores, conversions and numbers."""

from __future__ import annotations

from collections.abc import Callable

from fourfold.kernel.expression import Expression, Pointer
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.opencl.functions import function_of
from fourfold.types import DType

STORAGE = {
    DType.F32: "float",
    DType.F16: "half",
    DType.I8: "char",
    DType.U8: "uchar",
    DType.I16: "short",
    DType.U16: "ushort",
    DType.I32: "int",
    DType.U32: "uint",
    DType.I64: "long",
    DType.BOOL: "uchar",
}
_MATH = {"round_even": "rint", "round_away": "round"}  # all others have their own names
_NATURAL = {"float": DType.F32, "int": DType.I32}
_PRECEDENCE = {"*": 5, "/": 5, "%": 5, "+": 4, "-": 4}
_PRECEDENCE |= dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), 3)
_PRECEDENCE |= {"&&": 2, "||": 1, "where": 0, "guarded": 0}


def type_name(kind: str, width: int) -> str:
    base = "int" if kind == "bool" else kind
    return base if width == 1 else f"{base}{width}"


class ExpressionWriter:
    """Writes expressions, and notes which copies of pointers have to be declared for them."""

    def __init__(self, kernel: Kernel, images: frozenset[str] = frozenset()) -> None:
        self.kernel, self.images = kernel, images
        self.casts: dict[str, str] = {}

    def _space(self, pointer: Pointer) -> str:
        """How the memory behind a pointer is declared."""
        word = "const " if self._is_constant(pointer) else ""
        return f"{'' if pointer.private else '__global '}{word}{STORAGE[pointer.dtype]} "

    def _is_constant(self, pointer: Pointer) -> bool:
        return not pointer.writable

    def _of(self, item: Expression, known: dict[int, str], outer: int = 0) -> str:
        if id(item) in known:
            return known[id(item)]
        inner = _PRECEDENCE.get(item.op)
        if inner is None:
            return self._plain(item, known)
        text = self._binary(item, known, inner) if inner else self._choice(item, known)
        return f"({text})" if inner < outer else text

    def _binary(self, item: Expression, known: dict[int, str], level: int) -> str:
        a, b = item.operands
        text = f"{self._of(a, known, level)} {item.op} {self._of(b, known, level + 1)}"
        if item.kind == "bool" and a.kind == "half" and item.width > 1:
            # Truth in vectors is as wide as what was compared; everywhere else it is an int.
            return f"convert_int{item.width}({text})"
        return text

    def _choice(self, item: Expression, known: dict[int, str]) -> str:
        condition, value, otherwise = item.operands
        text = self._of(condition, known, 1)
        if item.kind == "half" and condition.width > 1:
            text = f"convert_short{item.width}({self._of(condition, known)})"
        return f"{text} ? {self._of(value, known, 1)} : {self._of(otherwise, known, 1)}"

    def _plain(self, item: Expression, known: dict[int, str]) -> str:
        operands = item.operands

        def of(x: Expression, outer: int = 6) -> str:
            return self._of(x, known, outer)

        match item.op:
            case "const":
                return literal(item)
            case "name":
                return str(operands[0])
            case "global_id" | "local_id":
                return self._id(item.op, operands[0])
            case "bitcast":
                return f"as_{type_name(item.kind, item.width)}({of(operands[0], 0)})"
            case "splat" | "vector":
                lanes = ", ".join(of(x, 0) for x in operands)
                text = f"({type_name(item.kind, item.width)})({lanes})"
                # True is 1 in a scalar and all bits in a vector.
                return f"({text} != (int{item.width})(0))" if item.kind == "bool" else text
            case "lane":
                return f"{of(operands[0])}.s{operands[1]:x}"
            case "part":
                first = operands[1] * item.width
                picked = "".join(f"{first + lane:x}" for lane in range(item.width))
                return f"{of(operands[0])}.s{picked}"
            case "neg":
                text = of(operands[0])
                return f"-({text})" if text.startswith("-") else f"-{text}"
            case "&" | "|" | "^" | "<<" | ">>":
                # Few know how tightly these bind.
                return f"({of(operands[0])} {item.op} {of(operands[1])})"
            case "convert":
                return f"convert_{type_name(item.kind, item.width)}({of(operands[0], 0)})"
            case "math":
                function = _MATH.get(operands[0], operands[0])
                return f"{function}({', '.join(of(x, 0) for x in operands[1:])})"
            case "load" if operands[0].name in self.images:
                return self._texels(item, of)
            case "load":
                return self._load(item, of(operands[1], 0))
        return self._intrinsic(item, of)

    def _intrinsic(self, item: Expression, of: Callable[[Expression, int], str]) -> str:
        """What the language cannot say itself: by functions of the prelude."""
        first, *others = item.operands or ("",)
        if item.op == "subgroup_size":
            return "get_max_sub_group_size()"
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
        """What lies in an image, which is read by fours."""
        (pointer, index), fours = item.operands, item.width // 4
        first = f"{pointer.name}_at + "
        first += of(index, 4) if fours == 1 else f"{fours} * {of(index, 6)}"
        word = "read_imageh" if item.kind == "half" else "read_imagef"
        places = [first, *(f"{first} + {number}" for number in range(1, fours))]
        texels = ", ".join(f"{word}({pointer.name}, {place})" for place in places)
        return texels if fours == 1 else f"({type_name(item.kind, item.width)})({texels})"

    def _load(self, item: Expression, index: str) -> str:
        pointer, kind, width = item.operands[0], item.kind, item.width
        if pointer.local:
            return f"{pointer.name}[{index}]"
        suffix = "" if width == 1 else str(width)
        if pointer.dtype is DType.F16 and kind == "float":
            aligned = "" if width == 1 else "a"
            return f"vload{aligned}_half{suffix}({index}, {self._unwidened(pointer)})"
        place = f"{self._typed(pointer, width)}[{index}]"
        if kind == "bool":
            return f"convert_int{suffix}({place}) != {'0' if width == 1 else f'(int{width})(0)'}"
        if _NATURAL.get(kind) is pointer.dtype or (kind == "half" and pointer.dtype is DType.F16):
            return place
        return f"convert_{type_name(kind, width)}({place})"

    def _store(self, pointer: Pointer, index: str, value: Expression, known: dict[int, str]) -> str:
        text, width = self._of(value, known), value.width
        if pointer.local:
            return f"{pointer.name}[{index}] = {text}"
        suffix = "" if width == 1 else str(width)
        if pointer.dtype is DType.F16 and value.kind == "float":
            aligned = "" if width == 1 else "a"
            return f"vstore{aligned}_half{suffix}({text}, {index}, {self._unwidened(pointer)})"
        if value.kind == "bool":
            one = "1" if width == 1 else f"(int{width})(1)"
            text = f"convert_uchar{suffix}(({text}) & {one})"
        elif not (_NATURAL.get(value.kind) is pointer.dtype or value.kind == "half") or (
            value.kind == "half" and pointer.dtype is not DType.F16
        ):
            text = f"convert_{STORAGE[pointer.dtype]}{suffix}({text})"
        return f"{self._typed(pointer, width)}[{index}] = {text}"

    def _id(self, kind: str, axis: int) -> str:
        return f"get_{kind}({axis})"

    def _raw(self, pointer: Pointer) -> str:
        """The pointer as one to pairs of 32-bit words."""
        title = f"{pointer.name}_raw"
        const = "const " if self._is_constant(pointer) else ""
        kind = f"__global {const}uint2"
        self.casts[title] = f"{kind} *{title} = ({kind} *){pointer.name};"
        return title

    def _shift(self, target: Pointer, origin: Pointer, index: str) -> str:
        """A pointer further on. Halves are loaded by functions that take a plain pointer."""
        space = self._space(origin)
        if target.width == 1 or self._by_function(origin):
            steps = "" if target.width == 1 else f" * {target.width}"
            return f"{space}*{target.name} = {origin.name} + {index}{steps}"
        typed = self._typed(origin, target.width)
        return f"{space.strip()}{target.width} *{target.name} = {typed} + {index}"

    def _by_function(self, pointer: Pointer) -> bool:
        """Whether all that lies there is loaded and stored by functions."""
        return pointer.dtype is DType.F16 and self.kernel.real == "float"

    def _unwidened(self, pointer: Pointer) -> str:
        """The pointer as functions for halves take it, which step over vectors by themselves."""
        if pointer.width == 1 or self._by_function(pointer):
            return pointer.name
        return f"({self._space(pointer)}*){pointer.name}"

    def _typed(self, pointer: Pointer, width: int) -> str:
        """The pointer itself, or a copy of it that steps over vectors."""
        if width == pointer.width:
            return pointer.name
        title = f"{pointer.name}_{width}"
        space = self._space(pointer).strip() + str(width)
        self.casts[title] = f"{space} *{title} = ({space} *){pointer.name};"
        return title


def literal(item: Expression) -> str:
    """A number as the language writes it; vectors repeat it in every lane."""
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
    return text if item.width == 1 else f"({type_name(kind, item.width)})({text})"
