"""Functions that convert between 32-bit words and the halves, bytes or shorts in them."""

from __future__ import annotations

from fourfold.types import DType

# Function names for element types smaller than a word.
_TITLES = {
    DType.F16: "halves",
    DType.U8: "bytes",
    DType.BOOL: "bytes",
    DType.I8: "signed_bytes",
    DType.U16: "shorts",
    DType.I16: "signed_shorts",
}
_FUNCTIONS = {
    "_halves4": """fn _halves4(w: vec2<u32>) -> vec4<f32> {
  return vec4<f32>(unpack2x16float(w.x), unpack2x16float(w.y));
}""",
    "_bytes4": """fn _bytes4(w: u32) -> vec4<i32> {
  return vec4<i32>((vec4<u32>(w) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u));
}""",
    "_signed_bytes4": """fn _signed_bytes4(w: u32) -> vec4<i32> {
  return bitcast<vec4<i32>>(vec4<u32>(w) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u);
}""",
    "_shorts4": """fn _shorts4(w: vec2<u32>) -> vec4<i32> {
  return vec4<i32>((w.xxyy >> vec4<u32>(0u, 16u, 0u, 16u)) & vec4<u32>(65535u));
}""",
    "_signed_shorts4": """fn _signed_shorts4(w: vec2<u32>) -> vec4<i32> {
  return bitcast<vec4<i32>>(w.xxyy << vec4<u32>(16u, 0u, 16u, 0u)) >> vec4<u32>(16u);
}""",
    "_pack_halves4": """fn _pack_halves4(v: vec4<f32>) -> vec2<u32> {
  return vec2<u32>(pack2x16float(v.xy), pack2x16float(v.zw));
}""",
    "_pack_bytes4": """fn _pack_bytes4(v: vec4<i32>) -> u32 {
  let w = (bitcast<vec4<u32>>(v) & vec4<u32>(255u)) << vec4<u32>(0u, 8u, 16u, 24u);
  return w.x | w.y | w.z | w.w;
}""",
    "_pack_shorts4": """fn _pack_shorts4(v: vec4<i32>) -> vec2<u32> {
  let w = (bitcast<vec4<u32>>(v) & vec4<u32>(65535u)) << vec4<u32>(0u, 16u, 0u, 16u);
  return w.xz | w.yw;
}""",
}


def unpacking(dtype: DType) -> tuple[str, str]:
    """Return the function that unpacks four numbers from words, as name and text."""
    name = f"_{_TITLES[dtype]}4"
    return name, _FUNCTIONS[name]


def packing(dtype: DType) -> tuple[str, str]:
    """Return the function that packs four numbers into words, as name and text."""
    name = f"_pack_{_TITLES[dtype].removeprefix('signed_')}4"
    return name, _FUNCTIONS[name]


def element_title(dtype: DType) -> str:
    """Return the function name part for one element of a dtype."""
    return _TITLES[dtype].removesuffix("s").replace("halve", "half")
