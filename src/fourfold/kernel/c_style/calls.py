"""Writes statements that call functions of the prelude, for languages of the C family."""

from __future__ import annotations

from collections.abc import Iterator

from fourfold.kernel.c_style.dialect import Dialect
from fourfold.kernel.c_style.expression import ExpressionWriter
from fourfold.kernel.c_style.functions import function_of
from fourfold.kernel.expression import Expression
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.statement import (
    CopyAhead,
    DiagonalMultiply,
    DotAccumulate,
    MatrixMultiply,
    Prefetch,
    Statement,
    StoreRounded,
    StoreRoundedBlock,
    WarpgroupMultiply,
)
from fourfold.kernel.walk import operands

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

    def _called(self, statement: Statement, pad: str, known: dict[int, str]) -> Iterator[str]:
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
                arguments = ", ".join(self._of(item, known) for item in operands(statement))
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
        arguments = ", ".join(self._of(item, known) for item in factors)
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
        address = f"{statement.pointer.name} + {self._of(index, known, 5)}"
        arguments = [address, *(self._of(item, known) for item in values)]
        yield f"{pad}{function_of(statement)}({', '.join(arguments)});"

    def _copy_ahead(self, copy: CopyAhead, pad: str, known: dict[int, str]) -> Iterator[str]:
        yield from self._hoist(pad, known, copy.index, copy.place, copy.inside)
        target = f"{copy.target.name} + {self._of(copy.index, known, 5)}"
        words = self._raw(copy.source)
        if copy.words.number == 4:
            words = f"(const {self.dialect.type_name('uint', 4)} *){copy.source.name}"
        source = f"{words} + {self._of(copy.place, known, 5)}"
        inside = self._of(copy.inside, known)
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
            arguments += [f"(const {piece} *){pointer.name} + {self._of(index, known, 5)}"]
            arguments += [self._of(pitch, known)]
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
                yield f"{pad}const {kind} {title} = {self._of(item, known)};"
                known[id(item)] = title
