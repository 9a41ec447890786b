"""Renders a kernel in a language of the C family: deterministic, one statement per line."""

from __future__ import annotations

from collections.abc import Iterator

from fourfold.codegen.c_style.dialect import Dialect
from fourfold.codegen.c_style.expression import ExpressionWriter
from fourfold.codegen.c_style.functions import function_of
from fourfold.codegen.expression import Expression, Pointer
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.stage_table import array_vectors, local_memory
from fourfold.codegen.statement import (
    Assign,
    AwaitHost,
    AwaitInputs,
    Barrier,
    Branch,
    CopyAhead,
    Declare,
    DiagonalMultiply,
    DotAccumulate,
    Leave,
    LocalArray,
    Loop,
    MatrixMultiply,
    Prefetch,
    PrivateArray,
    Shift,
    Statement,
    Store,
    StoreRounded,
    StoreRoundedBlock,
    WarpgroupMultiply,
)
from fourfold.codegen.walk import operands

_PLAIN = ("const", "name", "global_id", "local_id", "subgroup_size")
_LEAVES = ("const", "name", "splat", "lane", "part")


def _is_plain(item: Expression) -> bool:
    """Return whether the expression is about as short as a name."""
    return item.op in _PLAIN or (item.op == "bitcast" and item.operands[0].op == "name")


class CallWriter(ExpressionWriter):
    """Writes calls of prelude functions, and names for subexpressions used twice."""

    def __init__(
        self, kernel: Kernel, dialect: Dialect, images: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(kernel, dialect, images)
        self.shared = 0

    def _call(self, statement: Statement, pad: str, known: dict[int, str]) -> Iterator[str]:
        match statement:
            case DotAccumulate() | MatrixMultiply() | DiagonalMultiply():
                yield from self._accumulate(statement, pad, known)
            case Prefetch() | StoreRounded() | StoreRoundedBlock():
                yield from self._call_at(statement, pad, known)
            case CopyAhead():
                yield from self._copy_ahead(statement, pad, known)
            case WarpgroupMultiply():
                yield from self._multiply_in_memory(statement, pad, known)
            case _:
                arguments = ", ".join(self._text_of(item, known) for item in operands(statement))
                yield f"{pad}{function_of(statement)}({arguments});"

    def _accumulate(
        self,
        statement: DotAccumulate | MatrixMultiply | DiagonalMultiply,
        pad: str,
        known: dict[int, str],
    ) -> Iterator[str]:
        """Write a call of a prelude function that changes a variable."""
        target, *factors = operands(statement)
        yield from self._hoist(pad, known, *factors)
        arguments = ", ".join(self._text_of(item, known) for item in factors)
        yield f"{pad}{function_of(statement)}(&{target.operands[0]}, {arguments});"

    def _call_at(
        self,
        statement: Prefetch | StoreRounded | StoreRoundedBlock,
        pad: str,
        known: dict[int, str],
    ) -> Iterator[str]:
        """Write a call of a prelude function that takes a memory address."""
        index, *values = operands(statement)
        yield from self._hoist(pad, known, index, *values)
        address = f"{statement.pointer.name} + {self._text_of(index, known, 5)}"
        arguments = [address, *(self._text_of(item, known) for item in values)]
        yield f"{pad}{function_of(statement)}({', '.join(arguments)});"

    def _copy_ahead(self, copy: CopyAhead, pad: str, known: dict[int, str]) -> Iterator[str]:
        yield from self._hoist(pad, known, copy.index, copy.place, copy.inside)
        target = f"{copy.target.name} + {self._text_of(copy.index, known, 5)}"
        words = self._raw(copy.source)
        if copy.words.number == 4:
            words = f"(const {self.dialect.type_name('uint', 4)} *){copy.source.name}"
        source = f"{words} + {self._text_of(copy.place, known, 5)}"
        inside = self._text_of(copy.inside, known)
        yield f"{pad}{function_of(copy)}({target}, {source}, {inside});"

    def _multiply_in_memory(
        self, product: WarpgroupMultiply, pad: str, known: dict[int, str]
    ) -> Iterator[str]:
        yield from self._hoist(pad, known, product.row, product.column)
        arguments = [f"&{target.operands[0]}" for target in product.targets]
        piece = self.dialect.type_name("uint", 4)
        for pointer, index, pitch in (
            (product.rows, product.row, product.row_pitch),
            (product.columns, product.column, product.column_pitch),
        ):
            arguments += [f"(const {piece} *){pointer.name} + {self._text_of(index, known, 5)}"]
            arguments += [self._text_of(pitch, known)]
        yield f"{pad}{function_of(product)}({', '.join(arguments)});"

    def _hoist(self, pad: str, known: dict[int, str], *roots: Expression) -> Iterator[str]:
        """Declare names for subexpressions that a statement uses more than once."""
        counts: dict[int, int] = {}
        order: list[Expression] = []

        def visit(item: object) -> None:
            if not isinstance(item, Expression) or _is_plain(item):
                return
            key = id(item)
            if key in counts:
                counts[key] += 1
            elif key not in known:
                counts[key] = 1
                # An expression inside a guard must not be moved out of it.
                for operand in item.operands if item.op != "guarded" else ():
                    visit(operand)
                order.append(item)

        for root in roots:
            visit(root)
        for item in order:
            if counts[id(item)] > 1 and item.op not in _LEAVES:
                title = f"s{self.shared}"
                self.shared += 1
                kind = self.dialect.type_name(item.kind, item.width)
                yield f"{pad}const {kind} {title} = {self._text_of(item, known)};"
                known[id(item)] = title


def render(
    kernel: Kernel, entry: str, dialect: Dialect, images: frozenset[str] = frozenset()
) -> str:
    """Return the text of one entry point; `images` names the pointers that are read as images."""
    return dialect.unit(Renderer(kernel, dialect, images).text(entry))


class Renderer(CallWriter):
    """Renders one kernel, statement by statement."""

    def __init__(
        self, kernel: Kernel, dialect: Dialect, images: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(kernel, dialect, images)
        self.pool = 0  # vectors of the launch's local memory pool that arrays occupy so far

    def text(self, entry: str) -> str:
        body = list(self._block(self.kernel.body, 1, {}))
        parameters, tops, words = [], [], self.dialect.words
        if self._asks_launch:
            tops.append(f"    {self.dialect.launch_array}")
        for argument in self.kernel.buffers:
            pointer = argument.pointer
            if pointer.name in self.images:
                parameters.append(self.dialect.image_parameter(pointer.name))
                parameters.append(f"int {pointer.name}_at")
            else:
                parameters.append(f"{self._space(pointer)}*{words['restrict']} {pointer.name}_base")
                parameters.append(f"{words['long']} {pointer.name}_at")
                tops.append(self._offset(pointer))
        parameters += [f"int {size}" for size in self.kernel.sizes]
        tops += [self._array(array) for array in self.kernel.arrays]
        tops += [f"    {line}" for line in self.casts.values()]
        head = self.dialect.entry(entry, ",\n    ".join(parameters), self.kernel.local_items)
        return "\n".join([f"// {self.kernel.title}", head, "{", *tops, *body, "}", ""])

    def _offset(self, pointer: Pointer) -> str:
        title = pointer.name
        return f"    {self._space(pointer)}*{title} = {title}_base + {title}_at;"

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
                kind = self.dialect.type_name(target.kind, target.width)
                yield f"{pad}{word}{kind} {target.operands[0]} = {self._text_of(value, known)};"
            case Assign(target, value, op):
                yield from self._hoist(pad, known, value)
                yield f"{pad}{target.operands[0]} {op}= {self._text_of(value, known)};"
            case Shift(target, origin, index):
                yield from self._hoist(pad, known, index)
                offset = self._text_of(index, known, 5)
                yield f"{pad}{self._shifted_pointer(target, origin, offset)};"
            case Store(pointer, index, value):
                yield from self._hoist(pad, known, index, value)
                yield f"{pad}{self._store(pointer, self._text_of(index, known), value, known)};"
            case Loop():
                yield from self._loop(statement, depth, known)
            case Branch(condition, [Leave()], []):
                yield from self._hoist(pad, known, condition)
                yield f"{pad}if ({self._text_of(condition, known)}) return;"
            case Branch(condition, body, otherwise):
                yield from self._hoist(pad, known, condition)
                yield f"{pad}if ({self._text_of(condition, known)}) {{"
                yield from self._block(body, depth + 1, known)
                if otherwise:
                    yield f"{pad}}} else {{"
                    yield from self._block(otherwise, depth + 1, known)
                yield f"{pad}}}"
            case Barrier():
                yield f"{pad}{self._barrier()}"
            case AwaitInputs():
                yield from self._await_inputs(pad)
            case AwaitHost():
                yield from self._await_host(statement, pad, known)
            case LocalArray():
                yield f"{pad}{self._local_array(statement)}"
            case Leave():
                yield f"{pad}return;"
            case _:
                yield from self._call(statement, pad, known)

    def _loop(self, loop: Loop, depth: int, known: dict[int, str]) -> Iterator[str]:
        pad, counter = "    " * depth, loop.variable.operands[0]
        yield from self._hoist(pad, known, loop.start, loop.stop, loop.step)
        by = "++" if loop.step.number == 1 else f" += {self._text_of(loop.step, known)}"
        start, stop = self._text_of(loop.start, known), self._text_of(loop.stop, known, 3)
        yield f"{pad}for (int {counter} = {start}; {counter} < {stop}; {counter}{by}) {{"
        yield from self._block(loop.body, depth + 1, known)
        yield f"{pad}}}"

    def _array(self, array: PrivateArray) -> str:
        kind = self.dialect.storages[array.pointer.dtype]
        return f"    {self.dialect.private_array(kind, array.pointer.name, array.size)}"

    def _await_inputs(self, pad: str) -> Iterator[str]:
        """Write nothing: a kernel that is launched on its own has nothing to wait for."""
        yield from ()

    def _await_host(self, what: AwaitHost, pad: str, known: dict[int, str]) -> Iterator[str]:
        yield from self._hoist(pad, known, what.needed, what.asks)
        operands = f"{self._text_of(what.needed, known)}, {self._text_of(what.asks, known)}"
        yield f"{pad}await_host(others, {operands});"

    def _barrier(self) -> str:
        return f"{self.dialect.words['barrier']};"

    @property
    def _asks_launch(self) -> bool:
        """True if the launch allocates the kernel's local memory."""
        return self.dialect.asks_launch(local_memory([self.kernel], 0))

    def _local_array(self, array: LocalArray) -> str:
        kind = self.dialect.type_name(array.kind, array.width)
        if self._asks_launch:
            return self._pooled(array)
        return f"{self.dialect.words['array']}{kind} {array.pointer.name}[{array.size}];"

    def _pooled(self, array: LocalArray) -> str:
        """Declare an array as a part of the local memory pool."""
        kind = self.dialect.words["local"] + self.dialect.type_name(array.kind, array.width)
        start = self.pool
        self.pool += array_vectors(array)
        return f"{kind} *{array.pointer.name} = ({kind} *)(pool + {start});"
