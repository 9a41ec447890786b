"""Loads and stores of any element type in buffers that are arrays of 32-bit words."""

from __future__ import annotations

from collections.abc import Mapping

from fourfold.codegen.expression import Expression, Pointer
from fourfold.codegen.wgsl.bindings import Binding, element_bits
from fourfold.codegen.wgsl.names import identifier, type_name
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


_NATURAL = {DType.F32: "float", DType.F16: "float"}  # other dtypes hold integers
_SIGNED = (DType.I8, DType.I16)
_LANES = "xyzw"


class MemoryWriter:
    """Writes loads and stores and collects the functions and offsets they need."""

    def __init__(self, bindings: Mapping[str, Binding]) -> None:
        self._bindings = bindings
        self.functions: dict[str, str] = {}
        self.offsets: dict[str, str] = {}

    def load(self, item: Expression, index: str) -> str:
        """Return a load with the kind and width of an expression."""
        pointer, width = item.operands[0], item.width
        if pointer.local:
            return f"{identifier(pointer.name)}[{index}]"
        return self._as_kind(self._numbers(pointer, index, width), pointer.dtype, item)

    def _numbers(self, pointer: Pointer, index: str, width: int) -> str:
        """Return the elements at an index as floats or ints."""
        dtype, binding = pointer.dtype, self._bindings[pointer.name]
        position = f"{self._offset(pointer, width)} + {index}"
        if dtype is DType.I64:
            position = f"{self._offset(pointer, 1)} + {width} * ({index})"
            return f"{self._low_words(binding, width)}({position})"
        if element_bits(dtype) * width < 32:
            return f"{self._element(binding, dtype)}({position})"
        words = self._words(binding, element_bits(dtype) * width // 32, position)
        if element_bits(dtype) == 32:
            return f"bitcast<{type_name(_natural(dtype), width)}>({words})"
        return f"{self._add_function(*unpacking(dtype))}({words})"

    def _words(self, binding: Binding, count: int, position: str) -> str:
        """Return `count` neighbouring words."""
        if count == binding.words and not binding.atomic:
            return f"{binding.name}[{position}]"
        name = f"_read{count}{binding.name}"
        words = ", ".join(_word(binding, f"m + {n}" if n else "m") for n in range(count))
        value = words if count == 1 else f"vec{count}<u32>({words})"
        head = f"fn {name}(n: i32) -> {type_name('uint', count)} {{"
        lines = [head, f"  let m = n * {count};", f"  return {value};", "}"]
        return self._add_function(name, "\n".join(lines)) + f"({position})"

    def _low_words(self, binding: Binding, width: int) -> str:
        """Return a function that reads the low words of 64-bit integers."""
        name, type_ = f"_low{width}{binding.name}", type_name("int", width)
        words = ", ".join(f"i32({_word(binding, f'2 * (n + {lane})')})" for lane in range(width))
        value = words if width == 1 else f"{type_}({words})"
        return self._add_function(name, f"fn {name}(n: i32) -> {type_} {{ return {value}; }}")

    def _element(self, binding: Binding, dtype: DType) -> str:
        """Return a function that reads one element smaller than a word."""
        name = f"_{element_title(dtype)}{binding.name}"
        if dtype is DType.F16:
            value = f"unpack2x16float({_word(binding, '(n >> 1u)')})[n & 1]"
            return self._add_function(name, f"fn {name}(n: i32) -> f32 {{ return {value}; }}")
        bits, shift = element_bits(dtype), _shift(dtype)
        word = _word(binding, f"(n >> {_step(dtype)}u)")
        if dtype in _SIGNED:
            value = f"extractBits(bitcast<i32>({word}), {shift}, {bits}u)"
        else:
            value = f"i32(extractBits({word}, {shift}, {bits}u))"
        return self._add_function(name, f"fn {name}(n: i32) -> i32 {{ return {value}; }}")

    def _as_kind(self, text: str, dtype: DType, item: Expression) -> str:
        """Convert a number that was read to the kind that is computed with."""
        if item.kind == "bool":
            zero = "0" if item.width == 1 else "vec4<i32>(0)"
            return f"({text} != {zero})"
        if item.kind == _natural(dtype):
            return text
        return f"{type_name(item.kind, item.width)}({text})"

    def store(self, pointer: Pointer, index: str, text: str, value: Expression) -> str:
        """Return the statement that stores a value, given the value's text."""
        if pointer.local:
            return f"{identifier(pointer.name)}[{index}] = {text};"
        dtype, width, binding = pointer.dtype, value.width, self._bindings[pointer.name]
        number, bits = _stored_number(dtype, text, value), element_bits(dtype)
        position = f"{self._offset(pointer, width)} + {index}"
        if dtype is DType.I64:
            position = f"{self._offset(pointer, 1)} + {width} * ({index})"
            return f"{self._put_long(binding, width)}({position}, {number});"
        if bits * width < 32:
            return f"{self._put(binding, dtype)}({position}, {_bits_of(dtype, number)});"
        if bits == 32:
            words = f"bitcast<{type_name('uint', width)}>({number})"
        else:
            words = f"{self._add_function(*packing(dtype))}({number})"
        count = bits * width // 32
        if count == binding.words and not binding.atomic:
            return f"{binding.name}[{position}] = {words};"
        return f"{self._write(binding, count)}({position}, {words});"

    def _write(self, binding: Binding, count: int) -> str:
        """Return a function that writes `count` words to an array with narrower elements."""
        name = f"_write{count}{binding.name}"
        words = ["w"] if count == 1 else [f"w.{lane}" for lane in _LANES[:count]]
        head = f"fn {name}(n: i32, w: {type_name('uint', count)}) {{"
        lines = [head, f"  let m = n * {count};", *_word_stores(binding, "m", words), "}"]
        return self._add_function(name, "\n".join(lines))

    def _put_long(self, binding: Binding, width: int) -> str:
        name = f"_put_long{width}{binding.name}"
        lanes = ["v"] if width == 1 else [f"v.{lane}" for lane in _LANES]
        words = [f"bitcast<u32>({text})" for lane in lanes for text in (lane, f"({lane} >> 31u)")]
        lines = _word_stores(binding, "2 * n", words)
        head = f"fn {name}(n: i32, v: {type_name('int', width)}) {{"
        return self._add_function(name, "\n".join([head, *lines, "}"]))

    def _put(self, binding: Binding, dtype: DType) -> str:
        """Return a function that writes one element smaller than a word.

        Neighbours write other parts of the same word, so each changes only its own bits,
        atomically.
        """
        bits, step = element_bits(dtype), _step(dtype)
        name, mask = f"_put{bits}{binding.name}", (1 << bits) - 1
        lines = [
            f"fn {name}(n: i32, value: u32) {{",
            f"  let shift = {_shift(dtype)};",
            f"  atomicAnd(&{binding.name}[n >> {step}u], ~({mask}u << shift));",
            f"  atomicOr(&{binding.name}[n >> {step}u], (value & {mask}u) << shift);",
            "}",
        ]
        return self._add_function(name, "\n".join(lines))

    def _offset(self, pointer: Pointer, width: int) -> str:
        """Return the start of a pointer, in vectors of `width` elements."""
        field = f"sizes.{identifier(pointer.name)}_at"
        if width == 1:
            return field
        name = f"_{pointer.name}{width}"
        self.offsets[name] = f"let {name} = {field} >> {width.bit_length() - 1}u;"
        return name

    def _add_function(self, name: str, text: str) -> str:
        self.functions[name] = text
        return name


def _natural(dtype: DType) -> str:
    return _NATURAL.get(dtype, "int")


def _word(binding: Binding, index: str) -> str:
    """Return one word by its index, whatever the width of the array's elements."""
    if binding.atomic:
        return f"atomicLoad(&{binding.name}[{index}])"
    if binding.words == 1:
        return f"{binding.name}[{index}]"
    step = binding.words.bit_length() - 1
    return f"{binding.name}[({index}) >> {step}u][({index}) & {binding.words - 1}]"


def _word_stores(binding: Binding, first: str, words: list[str]) -> list[str]:
    """Return statements that write neighbouring words, as many at a time as an element has."""
    if binding.atomic:
        return [f"  atomicStore(&{binding.name}[{first} + {n}], {w});" for n, w in enumerate(words)]
    step = binding.words
    if step == 1:
        return [f"  {binding.name}[{first} + {n}] = {word};" for n, word in enumerate(words)]
    start = f"(({first}) >> {step.bit_length() - 1}u)"
    vectors = [", ".join(words[n : n + step]) for n in range(0, len(words), step)]
    return [
        f"  {binding.name}[{start} + {n}] = vec{step}<u32>({lanes});"
        for n, lanes in enumerate(vectors)
    ]


def _step(dtype: DType) -> int:
    """Return the shift that turns an element's index into that of its word."""
    return 1 if element_bits(dtype) == 16 else 2


def _shift(dtype: DType) -> str:
    """Return the expression for the position of an element in its word, in bits."""
    bits = element_bits(dtype)
    return f"u32(n & {32 // bits - 1}) * {bits}u"


def _stored_number(dtype: DType, text: str, value: Expression) -> str:
    """Convert a value to the float or int that is stored."""
    if value.kind == "bool":
        zero, one = ("0", "1") if value.width == 1 else ("vec4<i32>(0)", "vec4<i32>(1)")
        return f"select({zero}, {one}, {text})"
    kind = _natural(dtype)
    return text if value.kind == kind else f"{type_name(kind, value.width)}({text})"


def _bits_of(dtype: DType, number: str) -> str:
    if dtype is DType.F16:
        return f"pack2x16float(vec2<f32>({number}, 0.0))"
    return f"bitcast<u32>({number})"
