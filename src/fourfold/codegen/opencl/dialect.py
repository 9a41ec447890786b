"""Spellings of OpenCL C for the shared C renderer."""

from __future__ import annotations

from fourfold.codegen.c_style.dialect import Dialect
from fourfold.codegen.expression import Expression
from fourfold.types import DType

_WORDS = {
    "global": "__global ",
    "local": "__local ",
    "array": "__local ",
    "function": "static",
    "inline": "static inline",
    "restrict": "restrict",
    "long": "long",
    "int8": "(int8)",
    "virtual": "virtual",
    "item": "get_local_id(0)",
    "group": "get_group_id(0)",
    "groups": "get_num_groups(0)",
    "barrier": "barrier(CLK_LOCAL_MEM_FENCE)",
    "fence": "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)",
    **{f"s{lane}": f"s{lane}" for lane in range(4)},
}
_KINDS = {"bool": "int", **{kind: kind for kind in ("float", "half", "int", "uint", "long")}}
_STORAGES = {
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


class OpenCLDialect(Dialect):
    """The dialect of OpenCL C; halves in memory are accessed with functions."""

    words, kinds, storages = _WORDS, _KINDS, _STORAGES
    loads_halves = True
    subgroup_size = "get_max_sub_group_size()"

    def entry(self, name: str, parameters: str, items: int) -> str:
        return f"__kernel void {name}(\n    {parameters})"

    def unit(self, text: str) -> str:
        return text

    def vector(self, type_: str, lanes: str) -> str:
        return f"({type_})({lanes})"

    def lane(self, text: str, width: int, number: int) -> str:
        return f"{text}.s{number:x}"

    def part(self, text: str, width: int, first: int, count: int) -> str:
        return f"{text}.s{''.join(f'{first + lane:x}' for lane in range(count))}"

    def convert(self, type_: str, text: str) -> str:
        return f"convert_{type_}({text})"

    def bitcast(self, type_: str, text: str) -> str:
        return f"as_{type_}({text})"

    def truth(self, text: str, item: Expression) -> str:
        """Convert a comparison to int: in vectors, its width is that of the compared elements."""
        if item.width > 1 and item.operands[0].kind == "half":
            return self.convert(self.type_name("int", item.width), text)
        return text

    def half_condition(self, condition: str, width: int) -> str:
        return self.convert(f"short{width}", condition)

    def identifier(self, kind: str, axis: int) -> str:
        return f"get_{kind}({axis})"

    def private_array(self, type_: str, name: str, size: int) -> str:
        return f"{type_} {name}[{size}] __attribute__((aligned(64)));"

    def image_parameter(self, name: str) -> str:
        return f"__read_only image1d_buffer_t {name}"

    def texel(self, kind: str, name: str, index: str) -> str:
        word = "read_imageh" if kind == "half" else "read_imagef"
        return f"{word}({name}, {index})"

    def load_half(self, width: int, index: str, pointer: str) -> str:
        return f"vload{_half(width)}({index}, {pointer})"

    def store_half(self, width: int, value: str, index: str, pointer: str) -> str:
        return f"vstore{_half(width)}({value}, {index}, {pointer})"


def _half(width: int) -> str:
    return "_half" if width == 1 else f"a_half{width}"


OPENCL = OpenCLDialect()
