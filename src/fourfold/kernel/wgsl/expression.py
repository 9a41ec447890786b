"""Writes expressions in WGSL."""

from __future__ import annotations

from fourfold.kernel.expression import Expression
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.wgsl.functions import NATIVE, function_name, function_text
from fourfold.kernel.wgsl.memory import MemoryWriter
from fourfold.kernel.wgsl.names import identifier, literal, type_name

_PRECEDENCE = {"*": 2, "/": 2, "%": 2, "+": 1, "-": 1}
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_LANES = "xyzw"
Known = dict[int, str]


class ExpressionWriter:
    """Writes expressions and collects the functions they call."""

    def __init__(self, kernel: Kernel, memory: MemoryWriter) -> None:
        self.kernel, self.memory = kernel, memory
        self.functions: dict[str, str] = {}
        self.halves = False  # True if anything is computed in fp16

    def of(self, item: Expression, known: Known, outer: int = 0) -> str:
        """Return the text of a value; `known` maps values that are already computed to names."""
        if id(item) in known:
            return known[id(item)]
        self.halves |= item.kind == "half"
        inner = _PRECEDENCE.get(item.op)
        if inner is None:
            return self._plain(item, known)
        a, b = item.operands
        text = f"{self.of(a, known, inner)} {item.op} {self.of(b, known, inner + 1)}"
        return f"({text})" if inner < outer else text

    def _plain(self, item: Expression, known: Known) -> str:
        op, operands = item.op, item.operands
        if op in _COMPARISONS or op in ("&&", "||"):
            return self._truth(item, known)
        if op in ("&", "|", "^", "<<", ">>"):
            return self._bits(item, known)
        type_ = type_name(item.kind, item.width)

        def of(part: Expression, outer: int = 0) -> str:
            return self.of(part, known, outer)

        match op:
            case "const":
                return literal(item)
            case "name":
                return self._name(str(operands[0]))
            case "global_id":
                return f"i32(gid.{_LANES[operands[0]]})"
            case "local_id":
                return f"i32(lid.{_LANES[operands[0]]})"
            case "bitcast":
                return f"bitcast<{type_}>({of(operands[0])})"
            case "splat" | "vector" | "convert":
                return f"{type_}({', '.join(of(one) for one in operands)})"
            case "lane":
                return f"{of(operands[0], 3)}.{_LANES[operands[1]]}"
            case "part":
                first = operands[1] * item.width
                return f"{of(operands[0], 3)}.{_LANES[first : first + item.width]}"
            case "neg":
                return f"(-({of(operands[0])}))"
            case "where":
                condition, value, otherwise = operands
                return f"select({of(otherwise)}, {of(value)}, {of(condition)})"
            case "math":
                return self._call(item, known)
            case "load":
                return self.memory.load(item, of(operands[1], 1))
        raise NotImplementedError(f"WGSL does not support the expression {op}")

    def _name(self, title: str) -> str:
        name = identifier(title)
        return f"sizes.{name}" if title in self.kernel.sizes else name

    def _truth(self, item: Expression, known: Known) -> str:
        """Write a comparison in parentheses: < and a later > would parse as a list of types."""
        a, b = item.operands
        op = item.op[0] if item.op in ("&&", "||") else item.op  # the short form avoids branches
        return f"({self.of(a, known)} {op} {self.of(b, known)})"

    def _bits(self, item: Expression, known: Known) -> str:
        a, b = (self.of(part, known, 3) for part in item.operands)
        if item.op in ("<<", ">>"):
            b = f"{type_name('uint', item.width)}({b})"
        return f"({a} {item.op} {b})"

    def _call(self, item: Expression, known: Known) -> str:
        function, *values = item.operands
        texts = [self.of(one, known) for one in values]
        if function in NATIVE:
            return f"{NATIVE[function]}({', '.join(texts)})"
        name = function_name(function, item.width)
        self.functions[name] = function_text(function, item.width)
        if item.kind == "float":
            return f"{name}({', '.join(texts)})"
        floats = ", ".join(f"{type_name('float', item.width)}({text})" for text in texts)
        return f"{type_name(item.kind, item.width)}({name}({floats}))"
