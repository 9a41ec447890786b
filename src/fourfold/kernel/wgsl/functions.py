"""Functions that WGSL lacks, or leaves open where kernels rely on an answer.

Each is written for the kinds and widths that a kernel has. An implementation may compute as if
there were neither infinities nor NaN, so what depends on these asks for magnitudes.
"""

from __future__ import annotations

from string import Template

from fourfold.kernel.wgsl.names import type_name

# How the language itself calls functions of the kernel language.
NATIVE = {
    "exp": "exp",
    "log": "log",
    "sqrt": "sqrt",
    "rsqrt": "inverseSqrt",
    "sin": "sin",
    "cos": "cos",
    "fabs": "abs",
    "floor": "floor",
    "ceil": "ceil",
    "round_even": "round",
    "atan2": "atan2",
}
WRITTEN = {
    # Some drivers divide two exponentials, which overflow.
    "tanh": "fn $name(x: $t) -> $t { return tanh(clamp(x, $t(-10.0), $t(10.0))); }",
    # Of two whole numbers that are as near, `round` takes the even one.
    "round_away": """fn $name(x: $t) -> $t {
  let down = floor(abs(x));
  return sign(x) * select(down, down + $t(1.0), abs(x) - down >= $t(0.5));
}""",
    "fmod": "fn $name(x: $t, y: $t) -> $t { return x - y * trunc(x / y); }",
    # `pow` takes no negative number: its sign is that of an odd exponent.
    "pow": """fn $name(x: $t, y: $t) -> $t {
  let magnitude = pow(abs(x), y);
  let odd = abs(y - $t(2.0) * floor(y * $t(0.5))) == $t(1.0);
  return select(magnitude, -magnitude, (x < $t(0.0)) & odd);
}""",
    # Abramowitz and Stegun, 7.1.26: within 1.5e-7.
    "erf": """fn $name(x: $t) -> $t {
  let t = $t(1.0) / ($t(1.0) + $t(0.3275911) * abs(x));
  let upper = ($t(1.061405429) * t - $t(1.453152027)) * t + $t(1.421413741);
  let sum = (upper * t - $t(0.284496736)) * t + $t(0.254829592);
  return sign(x) * ($t(1.0) - sum * t * exp(-x * x));
}""",
}


def function_name(function: str, kind: str, width: int) -> str:
    """What a function of WRITTEN is called for values of a kind and width."""
    return f"_{function}_{kind}{width if width > 1 else ''}"


def function_text(function: str, kind: str, width: int) -> str:
    name, type_ = function_name(function, kind, width), type_name(kind, width)
    return Template(WRITTEN[function]).substitute(name=name, t=type_)
