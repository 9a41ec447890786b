"""Writes expressions in WGSL, and functions that it lacks or leaves undefined.

The functions take floats, with one version per width that a kernel uses; halves are converted to
floats. Implementations may assume that infinities and NaN do not occur, so code that depends on
them compares magnitudes.
"""

from __future__ import annotations

from string import Template

from fourfold.codegen.expression import Expression
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.wgsl.memory import MemoryWriter
from fourfold.codegen.wgsl.names import identifier, literal, type_name

# WGSL's names for functions of the kernel language.
NATIVE = {
    "exp": "exp",
    "log": "log",
    "sqrt": "sqrt",
    "rsqrt": "inverseSqrt",
    "fabs": "abs",
    "floor": "floor",
    "ceil": "ceil",
    "round_even": "round",
}
# Drivers guarantee little beyond one turn: subtract whole turns first, with 2 pi in two parts.
_TURN = """fn $name(x: $t) -> $t {
  let turns = round(x * 0.15915494f);
  return $function((x - turns * 6.28125f) - turns * 0.0019353072f);
}"""
WRITTEN = {
    "sin": _TURN.replace("$function", "sin"),
    "cos": _TURN.replace("$function", "cos"),
    # Some drivers divide two exponentials, which overflow.
    "tanh": "fn $name(x: $t) -> $t { return tanh(clamp(x, $t(-10.0), $t(10.0))); }",
    # `round` breaks ties to even.
    "round_away": """fn $name(x: $t) -> $t {
  let down = floor(abs(x));
  return sign(x) * select(down, down + 1.0f, (abs(x) - down) >= $t(0.5));
}""",
    # Factors are split in two, so that products are exact. A quotient that was rounded up to an
    # integer makes the remainder negative; beyond 2^24 the result is undefined and set to 0.
    "fmod": """fn $name(x: $t, y: $t) -> $t {
  let q = trunc(x / y);
  let q_high = bitcast<$t>(bitcast<$u>(q) & $u(0xfffff000u));
  let y_high = bitcast<$t>(bitcast<$u>(y) & $u(0xfffff000u));
  let part = (x - q_high * y_high) - q_high * (y - y_high);
  let rest = (part - (q - q_high) * y_high) - (q - q_high) * (y - y_high);
  let whole = select(rest, rest + sign(x) * abs(y), (rest * x) < $t(0.0));
  let known = select(whole, $t(0.0), abs(q) > $t(16777216.0));
  return select(known, x, abs(y) > $t(3.4028234e38));
}""",
    "atan2": """fn $name(y: $t, x: $t) -> $t {
  return select(atan2(y, x), $t(0.0), (abs(x) + abs(y)) == $t(0.0));
}""",
    # `pow` takes no negative number: its sign is that of an odd exponent.
    "pow": """fn $name(x: $t, y: $t) -> $t {
  let magnitude = select(pow(abs(x), y), $t(1.0), y == $t(0.0));
  let odd = abs(y - 2.0f * floor(y * 0.5f)) == $t(1.0);
  let real = select(magnitude, -magnitude, (x < $t(0.0)) & odd);
  return select(real, $t(bitcast<f32>(NAN_BITS)), (x < $t(0.0)) & (floor(y) != y));
}""",
    # Abramowitz and Stegun, 7.1.26: within 1.5e-7.
    "erf": """fn $name(x: $t) -> $t {
  let t = 1.0f / (1.0f + 0.3275911f * abs(x));
  let upper = (1.061405429f * t - 1.453152027f) * t + 1.421413741f;
  let sum = (upper * t - 0.284496736f) * t + 0.254829592f;
  return sign(x) * (1.0f - sum * t * exp(-x * x));
}""",
}


def function_name(function: str, width: int) -> str:
    """Return the name of a function of WRITTEN for floats of a width."""
    return f"_{function}{width if width > 1 else ''}"


def function_text(function: str, width: int) -> str:
    types = {"t": type_name("float", width), "u": type_name("uint", width)}
    return Template(WRITTEN[function]).substitute(name=function_name(function, width), **types)


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
            return self._primary(item, known)
        a, b = item.operands
        text = f"{self.of(a, known, inner)} {item.op} {self.of(b, known, inner + 1)}"
        return f"({text})" if inner < outer else text

    def _primary(self, item: Expression, known: Known) -> str:
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
