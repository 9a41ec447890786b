"""Spellings of CUDA C for the shared C renderer."""

from __future__ import annotations

from fourfold.codegen.c_style.dialect import Dialect
from fourfold.codegen.expression import Expression
from fourfold.types import DType

# All text is inside a namespace, in which `float4` is a vector with operators instead of CUDA's
# own.
NAMESPACE = "fourfold"
_FUNCTION = "static __device__ __forceinline__"
_WORDS = {
    "global": "",
    "local": "",
    "array": "__shared__ ",
    "function": _FUNCTION,
    "inline": _FUNCTION,
    "restrict": "__restrict__",
    "long": "longlong",
    "int8": "int8",
    "virtual": "place",  # 'virtual' is a keyword
    "item": "threadIdx.x",
    "group": "blockIdx.x",
    "groups": "gridDim.x",
    "barrier": "__syncthreads()",
    "fence": "__syncthreads()",
    **{f"s{lane}": "xyzw"[lane] for lane in range(4)},
}
# A long has 32 bits on Windows, and the sign of char depends on the host.
_KINDS = {"bool": "int", "long": "longlong"}
_KINDS |= {kind: kind for kind in ("float", "half", "int", "uint")}
_STORAGES = {
    DType.F32: "float",
    DType.F16: "half",
    DType.I8: "schar",
    DType.U8: "uchar",
    DType.I16: "short",
    DType.U16: "ushort",
    DType.I32: "int",
    DType.U32: "uint",
    DType.I64: "longlong",
    DType.BOOL: "uchar",
}
_AXES = "xyz"


class CudaDialect(Dialect):
    """The dialect of CUDA C; vectors, halves and their functions come from the prelude."""

    words, kinds, storages = _WORDS, _KINDS, _STORAGES
    choice_function = "choose"
    declared_local_memory = 48 << 10
    launch_array = "extern __shared__ float4 pool[];"
    subgroup_size = "warpSize"

    def entry(self, name: str, parameters: str, items: int) -> str:
        head = f'extern "C" __global__ void __launch_bounds__({items}) {name}'
        return f"{head}(\n    {parameters})"

    def unit(self, text: str) -> str:
        return f"namespace {NAMESPACE} {{\n{text}}}\n"

    def vector(self, type_: str, lanes: str) -> str:
        return f"{type_}({lanes})"

    def lane(self, text: str, width: int, number: int) -> str:
        first, within = number // 4 * 4, number % 4
        four_lanes = text if width <= 4 else self.part(text, width, first, 4)
        return f"{four_lanes}.{'xyzw'[within]}"

    def part(self, text: str, width: int, first: int, count: int) -> str:
        """Return part of a vector by repeated halving."""
        if count == 1:
            return self.lane(text, width, first)
        while width > count:
            width //= 2
            text += ".hi" if first >= width else ".lo"
            first %= width
        return f"{text}{'()' if count == 2 else ''}"

    def convert(self, type_: str, text: str) -> str:
        return f"convert<{type_}>({text})"

    def bitcast(self, type_: str, text: str) -> str:
        return f"bits_as<{type_}>({text})"

    def truth(self, text: str, item: Expression) -> str:
        return text

    def identifier(self, kind: str, axis: int) -> str:
        return f"{kind.removesuffix('_id')}_{_AXES[axis]}()"

    def private_array(self, type_: str, name: str, size: int) -> str:
        return f"alignas(16) {type_} {name}[{size}];"


CUDA = CudaDialect()
