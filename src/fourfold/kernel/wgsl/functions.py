"""Functions that WGSL lacks, or leaves undefined where kernels rely on a result.

They take floats, with one version per width that a kernel uses; halves are converted to floats.
Implementations may assume that infinities and NaN do not occur, so code that depends on them
compares magnitudes.
"""

from __future__ import annotations

from string import Template

from fourfold.kernel.wgsl.names import type_name

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
