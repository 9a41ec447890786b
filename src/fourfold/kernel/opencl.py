"""Renders a kernel as OpenCL C 1.2: deterministic, readable, one statement a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fourfold.kernel.expression import Expression, Pointer
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.prelude import PRELUDES
from fourfold.kernel.statement import (
    Assign,
    Barrier,
    Branch,
    Call,
    Declare,
    Leave,
    LocalArray,
    Loop,
    Statement,
    Store,
)
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
_NATURAL = {"float": DType.F32, "int": DType.I32}
_PRECEDENCE = {"*": 5, "/": 5, "%": 5, "+": 4, "-": 4}
_PRECEDENCE |= dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), 3)
_PRECEDENCE |= {"&&": 2, "||": 1, "where": 0, "guarded": 0}
_LEAVES = ("const", "name", "splat", "lane", "part")


def render(kernel: Kernel, entry: str) -> str:
    """The text of one entry point."""
    return Renderer(kernel).text(entry)


def type_name(kind: str, width: int) -> str:
    base = "int" if kind == "bool" else kind
    return base if width == 1 else f"{base}{width}"


class Renderer:
    """Holds what has to be declared at the top of the text while the body is written."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.casts: dict[str, str] = {}
        self.shared = 0

    def text(self, entry: str) -> str:
        body = list(self._block(self.kernel.body, 1, {}))
        parameters = []
        for argument in self.kernel.buffers:
            pointer = argument.pointer
            parameters.append(f"{self._space(pointer)}*restrict {pointer.name}_base")
            parameters.append(f"long {pointer.name}_at")
        parameters += [f"int {size}" for size in self.kernel.sizes]
        tops = [self._offset(argument.pointer) for argument in self.kernel.buffers]
        tops += [f"    {line}" for line in self.casts.values()]
        head = f"__kernel void {entry}(\n    " + ",\n    ".join(parameters) + ")"
        return "\n".join([f"// {self.kernel.title}", head, "{", *tops, *body, "}", ""])

    def _offset(self, pointer: Pointer) -> str:
        title = pointer.name
        return f"    {self._space(pointer)}*{title} = {title}_base + {title}_at;"

    def _space(self, pointer: Pointer) -> str:
        return f"__global {'' if pointer.writable else 'const '}{STORAGE[pointer.dtype]} "

    def _block(
        self, statements: list[Statement], depth: int, known: dict[int, str]
    ) -> Iterator[str]:
        known = dict(known)
        for statement in statements:
            yield from self._statement(statement, depth, known)

    def _statement(self, statement: Statement, depth: int, known: dict[int, str]) -> Iterator[str]:
        pad = "    " * depth
        match statement:
            case Declare(target, value, constant):
                yield from self._hoist(pad, known, value)
                word = "const " if constant else ""
                kind = type_name(target.kind, target.width)
                yield f"{pad}{word}{kind} {target.operands[0]} = {self._of(value, known)};"
            case Assign(target, value, op):
                yield from self._hoist(pad, known, value)
                yield f"{pad}{target.operands[0]} {op}= {self._of(value, known)};"
            case Call(function, target, operands):
                yield from self._hoist(pad, known, *operands)
                arguments = ", ".join(self._of(item, known) for item in operands)
                yield f"{pad}{function}(&{target.operands[0]}, {arguments});"
            case Store(pointer, index, value):
                yield from self._hoist(pad, known, index, value)
                yield f"{pad}{self._store(pointer, self._of(index, known), value, known)};"
            case Loop(variable, start, stop, step, body):
                yield from self._hoist(pad, known, start, stop, step)
                place = variable.operands[0]
                by = "++" if step.number == 1 else f" += {self._of(step, known)}"
                limits = (
                    f"int {place} = {self._of(start, known)}; {place} < {self._of(stop, known, 3)}"
                )
                yield f"{pad}for ({limits}; {place}{by}) {{"
                yield from self._block(body, depth + 1, known)
                yield f"{pad}}}"
            case Branch(condition, [Leave()], []):
                yield from self._hoist(pad, known, condition)
                yield f"{pad}if ({self._of(condition, known)}) return;"
            case Branch(condition, body, otherwise):
                yield from self._hoist(pad, known, condition)
                yield f"{pad}if ({self._of(condition, known)}) {{"
                yield from self._block(body, depth + 1, known)
                if otherwise:
                    yield f"{pad}}} else {{"
                    yield from self._block(otherwise, depth + 1, known)
                yield f"{pad}}}"
            case Barrier():
                yield f"{pad}barrier(CLK_LOCAL_MEM_FENCE);"
            case LocalArray():
                yield f"{pad}{self._local_array(statement)}"
            case Leave():
                yield f"{pad}return;"

    def _hoist(self, pad: str, known: dict[int, str], *roots: Expression) -> Iterator[str]:
        """Names for parts that a statement uses more than once, so that nothing is computed
        twice.
        """
        counts: dict[int, int] = {}
        order: list[Expression] = []

        def visit(item: Expression) -> None:
            key = id(item)
            if key in known or item.op in ("const", "name"):
                return
            counts[key] = counts.get(key, 0) + 1
            if counts[key] > 1:
                return
            for operand in item.operands:
                # What a guard protects must not be moved out of it.
                if isinstance(operand, Expression) and item.op != "guarded":
                    visit(operand)
            order.append(item)

        for root in roots:
            visit(root)
        for item in order:
            if counts[id(item)] > 1 and item.op not in _LEAVES:
                title = f"s{self.shared}"
                self.shared += 1
                text = self._of(item, known)
                yield f"{pad}const {type_name(item.kind, item.width)} {title} = {text};"
                known[id(item)] = title

    def _of(self, item: Expression, known: dict[int, str], outer: int = 0) -> str:
        if id(item) in known:
            return known[id(item)]
        text = self._plain(item, known)
        inner = _PRECEDENCE.get(item.op)
        return f"({text})" if inner is not None and inner < outer else text

    def _plain(self, item: Expression, known: dict[int, str]) -> str:
        op, operands = item.op, item.operands

        def of(x: Expression, outer: int = 6) -> str:
            return self._of(x, known, outer)

        match op:
            case "const":
                return literal(item)
            case "name":
                return self._name(str(operands[0]))
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
            case "convert":
                return f"convert_{type_name(item.kind, item.width)}({of(operands[0], 0)})"
            case "call":
                return f"{operands[0]}({', '.join(of(x, 0) for x in operands[1:])})"
            case "where" | "guarded":
                return f"{of(operands[0], 1)} ? {of(operands[1], 1)} : {of(operands[2], 1)}"
            case "load":
                return self._load(item, of(operands[1], 0))
        level = _PRECEDENCE[op]
        return f"{of(operands[0], level)} {op} {of(operands[1], level + 1)}"

    def _load(self, item: Expression, index: str) -> str:
        pointer, kind, width = item.operands[0], item.kind, item.width
        if pointer.local:
            return f"{pointer.name}[{index}]"
        if kind == "uint":
            return f"{self._raw(pointer)}[{index}]"
        suffix = "" if width == 1 else str(width)
        if pointer.dtype is DType.F16 and kind == "float":
            aligned = "" if width == 1 else "a"
            return f"vload{aligned}_half{suffix}({index}, {pointer.name})"
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
            return f"vstore{aligned}_half{suffix}({text}, {index}, {pointer.name})"
        if value.kind == "bool":
            one = "1" if width == 1 else f"(int{width})(1)"
            text = f"convert_uchar{suffix}(({text}) & {one})"
        elif not (_NATURAL.get(value.kind) is pointer.dtype or value.kind == "half") or (
            value.kind == "half" and pointer.dtype is not DType.F16
        ):
            text = f"convert_{STORAGE[pointer.dtype]}{suffix}({text})"
        return f"{self._typed(pointer, width)}[{index}] = {text}"

    def _name(self, title: str) -> str:
        return title

    def _local_array(self, array: LocalArray) -> str:
        kind = type_name(array.kind, array.width)
        return f"__local {kind} {array.pointer.name}[{array.size}];"

    def _raw(self, pointer: Pointer) -> str:
        """The pointer as one to pairs of 32-bit words."""
        title = f"{pointer.name}_raw"
        const = "const " if "const" in self._space(pointer) else ""
        kind = f"__global {const}uint2"
        self.casts[title] = f"{kind} *{title} = ({kind} *){pointer.name};"
        return title

    def _typed(self, pointer: Pointer, width: int) -> str:
        """The pointer itself, or a copy of it that steps over vectors."""
        if width == 1:
            return pointer.name
        title = f"{pointer.name}_{width}"
        space = self._space(pointer).strip() + str(width)
        self.casts[title] = f"{space} *{title} = ({space} *){pointer.name};"
        return title


def preludes(kernels: Iterable[Kernel]) -> str:
    """The text of the functions that kernels call and the language lacks, each once."""
    names = sorted({name for kernel in kernels for name in kernel.preludes})
    return "".join(PRELUDES[name] for name in names)


def literal(item: Expression) -> str:
    """A number as the language writes it; vectors repeat it in every lane."""
    value, kind = item.operands[0], item.kind
    if kind == "bool":
        text = ("1" if item.width == 1 else "-1") if value else "0"
    elif kind in ("int", "uint"):
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
