"""Renders a kernel in a language of the C family: deterministic, one statement a line."""

from __future__ import annotations

from collections.abc import Iterator

from fourfold.kernel.c_style.dialect import Dialect
from fourfold.kernel.c_style.expression import ExpressionWriter
from fourfold.kernel.c_style.functions import function_of
from fourfold.kernel.expression import Expression, Pointer
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.stage_table import array_vectors, local_memory
from fourfold.kernel.statement import (
    Assign,
    AwaitCopies,
    AwaitHost,
    AwaitInputs,
    Barrier,
    Branch,
    CopyAhead,
    Declare,
    DiagonalMultiply,
    DotAccumulate,
    EndCopies,
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
)
from fourfold.kernel.walk import operands

_PLAIN = ("const", "name", "global_id", "local_id", "subgroup_size")
_LEAVES = ("const", "name", "splat", "lane", "part")


def render(
    kernel: Kernel, entry: str, dialect: Dialect, images: frozenset[str] = frozenset()
) -> str:
    """The text of one entry point; `images` names the pointers that are read by image."""
    return dialect.unit(Renderer(kernel, dialect, images).text(entry))


def _is_plain(item: Expression) -> bool:
    """Whether it is as short as a name would be."""
    return item.op in _PLAIN or (item.op == "bitcast" and item.operands[0].op == "name")


class Renderer(ExpressionWriter):
    """Writes one kernel, statement by statement."""

    def __init__(
        self, kernel: Kernel, dialect: Dialect, images: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(kernel, dialect, images)
        self.shared = 0
        self.pool = 0  # vectors of local memory that arrays have of one that comes from elsewhere

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
                yield f"{pad}{word}{kind} {target.operands[0]} = {self._of(value, known)};"
            case Assign(target, value, op):
                yield from self._hoist(pad, known, value)
                yield f"{pad}{target.operands[0]} {op}= {self._of(value, known)};"
            case DotAccumulate() | MatrixMultiply() | DiagonalMultiply():
                yield from self._accumulate(statement, pad, known)
            case Shift(target, origin, index):
                yield from self._hoist(pad, known, index)
                yield f"{pad}{self._shift(target, origin, self._of(index, known, 5))};"
            case Store(pointer, index, value):
                yield from self._hoist(pad, known, index, value)
                yield f"{pad}{self._store(pointer, self._of(index, known), value, known)};"
            case Prefetch() | StoreRounded() | StoreRoundedBlock():
                yield from self._call_at(statement, pad, known)
            case Loop():
                yield from self._loop(statement, depth, known)
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
                yield f"{pad}{self._barrier()}"
            case CopyAhead():
                yield from self._copy_ahead(statement, pad, known)
            case EndCopies() | AwaitCopies():
                given = ", ".join(self._of(item, known) for item in operands(statement))
                yield f"{pad}{function_of(statement)}({given});"
            case AwaitInputs():
                yield from self._await(pad)
            case AwaitHost():
                yield from self._await_host(statement, pad, known)
            case LocalArray():
                yield f"{pad}{self._local_array(statement)}"
            case Leave():
                yield f"{pad}return;"

    def _accumulate(
        self,
        statement: DotAccumulate | MatrixMultiply | DiagonalMultiply,
        pad: str,
        known: dict[int, str],
    ) -> Iterator[str]:
        """A function of the prelude that changes a variable."""
        target, *factors = operands(statement)
        yield from self._hoist(pad, known, *factors)
        arguments = ", ".join(self._of(item, known) for item in factors)
        yield f"{pad}{function_of(statement)}(&{target.operands[0]}, {arguments});"

    def _call_at(
        self,
        statement: Prefetch | StoreRounded | StoreRoundedBlock,
        pad: str,
        known: dict[int, str],
    ) -> Iterator[str]:
        """A function of the prelude for a place in memory."""
        index, *values = operands(statement)
        yield from self._hoist(pad, known, index, *values)
        place = f"{statement.pointer.name} + {self._of(index, known, 5)}"
        every = [place, *(self._of(item, known) for item in values)]
        yield f"{pad}{function_of(statement)}({', '.join(every)});"

    def _copy_ahead(self, copy: CopyAhead, pad: str, known: dict[int, str]) -> Iterator[str]:
        yield from self._hoist(pad, known, copy.index, copy.place, copy.inside)
        target = f"{copy.target.name} + {self._of(copy.index, known, 5)}"
        source = f"{self._raw(copy.source)} + {self._of(copy.place, known, 5)}"
        inside = self._of(copy.inside, known)
        yield f"{pad}{function_of(copy)}({target}, {source}, {inside});"

    def _loop(self, loop: Loop, depth: int, known: dict[int, str]) -> Iterator[str]:
        pad, place = "    " * depth, loop.variable.operands[0]
        yield from self._hoist(pad, known, loop.start, loop.stop, loop.step)
        by = "++" if loop.step.number == 1 else f" += {self._of(loop.step, known)}"
        start, stop = self._of(loop.start, known), self._of(loop.stop, known, 3)
        yield f"{pad}for (int {place} = {start}; {place} < {stop}; {place}{by}) {{"
        yield from self._block(loop.body, depth + 1, known)
        yield f"{pad}}}"

    def _hoist(self, pad: str, known: dict[int, str], *roots: Expression) -> Iterator[str]:
        """Names for parts that a statement uses more than once, so that nothing is computed
        twice.
        """
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
                # What a guard protects must not be moved out of it.
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
                yield f"{pad}const {kind} {title} = {self._of(item, known)};"
                known[id(item)] = title

    def _array(self, array: PrivateArray) -> str:
        kind = self.dialect.storages[array.pointer.dtype]
        return f"    {self.dialect.private_array(kind, array.pointer.name, array.size)}"

    def _await(self, pad: str) -> Iterator[str]:
        """A kernel that is launched has nothing to wait for."""
        yield from ()

    def _await_host(self, what: AwaitHost, pad: str, known: dict[int, str]) -> Iterator[str]:
        yield from self._hoist(pad, known, what.needed, what.asks)
        operands = f"{self._of(what.needed, known)}, {self._of(what.asks, known)}"
        yield f"{pad}await_host(others, {operands});"

    def _barrier(self) -> str:
        return f"{self.dialect.words['barrier']};"

    @property
    def _asks_launch(self) -> bool:
        """Whether its local memory comes from the launch."""
        return self.dialect.asks_launch(local_memory([self.kernel], 0))

    def _local_array(self, array: LocalArray) -> str:
        kind = self.dialect.type_name(array.kind, array.width)
        if self._asks_launch:
            return self._pooled(array)
        return f"{self.dialect.words['array']}{kind} {array.pointer.name}[{array.size}];"

    def _pooled(self, array: LocalArray) -> str:
        """A part of memory that is there already."""
        kind = self.dialect.words["local"] + self.dialect.type_name(array.kind, array.width)
        start = self.pool
        self.pool += array_vectors(array)
        return f"{kind} *{array.pointer.name} = ({kind} *)(pool + {start});"
