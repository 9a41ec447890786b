"""Validity rules for kernel trees, each of which describes its violations.

Renderers may rely on them. They are not checked when plans are made; tests check all kernels that
operators can write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fourfold.codegen.capabilities import Capabilities
from fourfold.codegen.expression import Expression, Pointer
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.signatures import (
    BYTE_OPS,
    FRAGMENT_OPS,
    KINDS,
    SIGNATURES,
    SUBGROUP_OPS,
    WIDTHS,
    stores,
)
from fourfold.codegen.statement import (
    WARPGROUP_COLUMNS,
    Assign,
    AwaitCopies,
    AwaitHost,
    AwaitProducts,
    Barrier,
    BeginProducts,
    Branch,
    CopyAhead,
    Declare,
    DiagonalMultiply,
    DotAccumulate,
    EndCopies,
    EndProducts,
    LocalArray,
    Loop,
    MatrixMultiply,
    Prefetch,
    Shift,
    ShowCopies,
    Statement,
    Store,
    StoreRounded,
    StoreRoundedBlock,
    WarpgroupMultiply,
)
from fourfold.codegen.walk import expressions, operands, statements
from fourfold.types import DType

Rule = Callable[[Kernel], Iterator[str]]


def check_kernel(kernel: Kernel) -> list[str]:
    """Return the rule violations in a kernel; empty if it may be rendered."""
    return [f"{kernel.title}: {what}" for rule in RULES for what in rule(kernel)]


def unsupported_features(kernel: Kernel, able: Capabilities) -> list[str]:
    """Return the features a kernel uses that a language lacks."""
    missing: dict[str, None] = {}
    for item in expressions(kernel):
        missing.update(dict.fromkeys(_unsupported_in_expression(item, able)))
    for statement in statements(kernel.body):
        missing.update(dict.fromkeys(_unsupported_statement(statement, able)))
    pointers = [item.pointer for item in kernel.buffers]
    for pointer in (*pointers, *(item.pointer for item in kernel.arrays)):
        if pointer.dtype not in able.storages:
            missing[f"{pointer.dtype.value} in memory"] = None
    if kernel.arrays and not able.private_arrays:
        missing["a private array"] = None
    return [f"{kernel.title}: {what}" for what in missing]


def _unsupported_in_expression(item: Expression, able: Capabilities) -> Iterator[str]:
    if item.kind not in able.kinds:
        yield f"kind {item.kind}"
    if item.width not in able.widths:
        yield f"width {item.width}"
    if item.op in FRAGMENT_OPS and not able.matrix_fragments:
        yield item.op
    if item.op in SUBGROUP_OPS and not able.subgroups:
        yield item.op
    if item.op in BYTE_OPS and "x86" not in able.dot_products:
        yield item.op


def _unsupported_statement(statement: Statement, able: Capabilities) -> Iterator[str]:
    lacking: list[type] = []
    lacking += [] if able.local_memory else [Barrier, LocalArray]
    lacking += [] if able.shifted_pointers else [Shift]
    lacking += [] if able.matrix_fragments else [MatrixMultiply, DiagonalMultiply]
    lacking += [] if able.async_copies else [CopyAhead, EndCopies, AwaitCopies]
    products = [WarpgroupMultiply, BeginProducts, EndProducts, AwaitProducts, ShowCopies]
    lacking += [] if able.warpgroups else products
    lacking += [] if able.dot_products else [DotAccumulate]
    lacking += [] if "x86" in able.dot_products else [StoreRounded, StoreRoundedBlock]
    lacking += [] if able.host_addresses else [AwaitHost]
    if isinstance(statement, tuple(lacking)):
        yield type(statement).__name__


def _describe(item: object) -> str:
    if isinstance(item, Expression):
        return f"{item.kind}{item.width}"
    if isinstance(item, Pointer):
        return f"{item.dtype.value} *{item.name}"
    return repr(item)


def ops_are_known(kernel: Kernel) -> Iterator[str]:
    """Every op, kind and width belongs to a closed set."""
    for item in expressions(kernel):
        if item.op not in SIGNATURES:
            yield f"op {item.op!r} does not exist"
        if item.kind not in KINDS or item.width not in WIDTHS:
            yield f"{item.op} gives {item.kind}{item.width}"


def operands_fit(kernel: Kernel) -> Iterator[str]:
    """Every op has the right number of operands, of kinds and widths that it takes."""
    for item in expressions(kernel):
        fits = SIGNATURES.get(item.op)
        if fits is not None and not fits(item):
            arguments = ", ".join(map(_describe, item.operands))
            yield f"{_describe(item)} {item.op}({arguments}) does not fit"


def statements_fit(kernel: Kernel) -> Iterator[str]:
    """The operands of statements have kinds and widths that the statements take."""
    for statement in statements(kernel.body):
        if not _fits(statement):
            arguments = ", ".join(map(_describe, vars(statement).values()))
            yield f"{type(statement).__name__}({arguments}) does not fit"


def _types(statement: Statement) -> list[str]:
    return [_describe(item) for item in operands(statement)]


def _fits(statement: Statement) -> bool:
    match statement:
        case Declare(target, value) | Assign(target, value):
            return (target.kind, target.width) == (value.kind, value.width)
        case Store(pointer, index, value):
            return _is_place(index) and stores(pointer, value)
        case Loop():
            return _types(statement) == ["int1"] * 4
        case Branch():
            return _types(statement) == ["bool1"]
        case Shift(target, base, index):
            return _is_place(index) and target.dtype is base.dtype and base.width == 1
        case Prefetch(_, index):
            return _is_place(index)
        case DotAccumulate(target):
            return target.width in (4, 8) and set(_types(statement)) == {f"int{target.width}"}
        case MatrixMultiply():
            return _types(statement) == ["float4", "uint2", "uint2", "uint2"]
        case DiagonalMultiply():
            return _types(statement) == ["float4", *["uint1"] * 4, *["int1"] * 3]
        case StoreRounded(pointer):
            expected = ["int1", "float8", "float8", "float1", "int1"]
            return _takes_bytes(pointer) and _types(statement) == expected[: len(_types(statement))]
        case StoreRoundedBlock(pointer):
            expected = ["int1", "int1", *["float8"] * 4, "float1", "int1"]
            return _takes_bytes(pointer) and _types(statement) == expected
        case CopyAhead(target, source):
            halves = target.local and source.dtype is DType.F16
            fits = _types(statement) == ["int1", "int1", "bool1", "int1"]
            return halves and fits and statement.words.number in (2, 4)
        case WarpgroupMultiply(rows, columns):
            expected = ["int1"] * 4 + ["float4"] * len(statement.targets)
            valid_count = len(statement.targets) in WARPGROUP_COLUMNS
            return rows.local and columns.local and valid_count and _types(statement) == expected
        case AwaitCopies(newest) | AwaitProducts(newest):
            return newest.kind == "int" and newest.number is not None
        case AwaitHost():
            return _types(statement) == ["int1", "bool1"]
    return True


def _takes_bytes(pointer: Pointer) -> bool:
    return pointer.writable and pointer.dtype is DType.U8


def _is_place(index: Expression) -> bool:
    return index.kind in ("int", "long") and index.width == 1


def names_are_in_scope(kernel: Kernel) -> Iterator[str]:
    """Names and pointers are declared once and before use; only variables change."""
    yield from find_scope_errors(kernel)


RULES: tuple[Rule, ...] = (ops_are_known, operands_fit, statements_fit, names_are_in_scope)


def find_scope_errors(kernel: Kernel) -> Iterator[str]:
    """Yield names used out of scope or declared twice, and constants that are changed."""
    names = dict.fromkeys(kernel.sizes, False)
    pointers = {argument.pointer.name for argument in kernel.buffers}
    pointers |= {array.pointer.name for array in kernel.arrays}
    outside = _Block(names, pointers, {})
    for statement in kernel.body:
        if isinstance(statement, LocalArray):
            outside.declare_array(statement)
    yield from outside.look_at(kernel.body)


@dataclass
class _Block:
    """Declarations visible in a block: names (true if variable), pointers, local arrays."""

    names: dict[str, bool]
    pointers: set[str]
    arrays: dict[str, LocalArray]
    seen: set[int] = field(default_factory=set)

    def declare_array(self, array: LocalArray) -> None:
        self.pointers.add(array.pointer.name)
        self.arrays[array.pointer.name] = array

    def look_at(self, body: list[Statement]) -> Iterator[str]:
        for statement in body:
            yield from self._uses(statement)
            yield from self._changes(statement)
            yield from self._declares(statement)
            yield from self._inner(statement)

    def _inner(self, statement: Statement) -> Iterator[str]:
        bodies: list[list[Statement]] = []
        inside = self._nested()
        if isinstance(statement, Loop):
            inside.names[str(statement.variable.operands[0])] = False
            bodies = [statement.body]
        elif isinstance(statement, Branch):
            bodies = [statement.body, statement.otherwise]
        for body in bodies:
            yield from inside._nested().look_at(body)

    def _nested(self) -> _Block:
        return _Block(dict(self.names), set(self.pointers), self.arrays, set(self.seen))

    def _uses(self, statement: Statement) -> Iterator[str]:
        pointers = [item for item in vars(statement).values() if isinstance(item, Pointer)]
        if isinstance(statement, Declare | Loop):
            waiting = operands(statement)[1:]
        else:
            waiting = operands(statement)
        while waiting:
            item = waiting.pop()
            if id(item) in self.seen:
                continue
            self.seen.add(id(item))
            if item.op == "name" and item.operands[0] not in self.names:
                yield f"{item.operands[0]!r} is used out of scope"
            pointers += [part for part in item.operands if isinstance(part, Pointer)]
            waiting += [part for part in item.operands if isinstance(part, Expression)]
            if item.op == "load":
                yield from self._fits_array(item.operands[0], item)
        if isinstance(statement, Store):
            yield from self._fits_array(statement.pointer, statement.value)
        if isinstance(statement, CopyAhead):
            yield from self._fits_array(statement.target, statement.value)
        targets = [statement.target] if isinstance(statement, Shift) else []
        for pointer in pointers:
            if pointer not in targets and pointer.name not in self.pointers:
                yield f"pointer {pointer.name!r} is used out of scope"

    def _fits_array(self, pointer: Pointer, value: Expression) -> Iterator[str]:
        """Check that accesses to local memory have the element type of the array."""
        array = self.arrays.get(pointer.name)
        if array is not None and (array.kind, array.width) != (value.kind, value.width):
            yield f"{value.kind}{value.width} is not the element type of {pointer.name!r}"

    def _changes(self, statement: Statement) -> Iterator[str]:
        targets: tuple[Expression, ...] = ()
        if isinstance(statement, Assign | DotAccumulate | MatrixMultiply | DiagonalMultiply):
            targets = (statement.target,)
        elif isinstance(statement, WarpgroupMultiply):
            targets = statement.targets
        for target in targets:
            title = target.operands[0]
            if target.op != "name" or not self.names.get(title, False):
                yield f"{title!r} is assigned but is not a variable"

    def _declares(self, statement: Statement) -> Iterator[str]:
        if isinstance(statement, Declare):
            title = str(statement.target.operands[0])
            if title in self.names or title in self.pointers:
                yield f"{title!r} is declared twice"
            self.names[title] = not statement.constant
        elif isinstance(statement, Shift):
            self.pointers.add(statement.target.name)
