"""Statements of the kernel language."""

from __future__ import annotations

from dataclasses import dataclass, field

from fourfold.codegen.expression import Expression, Pointer
from fourfold.codegen.intrinsics import load_double_words, load_words

WARPGROUP_COLUMNS = (8, 16)  # blocks of eight columns that a warpgroup multiplies by at once


@dataclass(frozen=True)
class Declare:
    """Declare a variable with its first value."""

    target: Expression
    value: Expression
    constant: bool


@dataclass(frozen=True)
class Assign:
    """Assign a new value to a variable; `op` is '' or '+'."""

    target: Expression
    value: Expression
    op: str = ""


@dataclass(frozen=True)
class Store:
    """Store `value` at `index * value.width` of the memory behind a pointer."""

    pointer: Pointer
    index: Expression
    value: Expression


@dataclass(frozen=True)
class Loop:
    """for (variable = start; variable < stop; variable += step)."""

    variable: Expression
    start: Expression
    stop: Expression
    step: Expression
    body: list[Statement] = field(default_factory=list)


@dataclass(frozen=True)
class Branch:
    """if (condition) body else otherwise."""

    condition: Expression
    body: list[Statement] = field(default_factory=list)
    otherwise: list[Statement] = field(default_factory=list)


@dataclass(frozen=True)
class DotAccumulate:
    """target[n] += dot product of unsigned bytes in bytes[n] and signed ones in weights[n].

    All are ints of width 4 or 8.
    """

    target: Expression
    bytes: Expression
    weights: Expression


@dataclass(frozen=True)
class MatrixMultiply:
    """target += a product of matrices held jointly by a warp of 32 work-items.

    16 rows by 16 halves, times 16 by 8, into floats. Work-item n holds the halves 4 * (n % 4) to +
    3 of the rows n / 4 (`upper`) and n / 4 + 8 (`lower`), and those of column n / 4 of the other
    matrix (`factor`). Of the result it holds the columns 2 * (n % 4) and the next of its upper row,
    then of its lower one.
    """

    target: Expression
    upper: Expression
    lower: Expression
    factor: Expression


@dataclass(frozen=True)
class DiagonalMultiply:
    """target += the rows of two matrices, each times a diagonal, in the layout of `MatrixMultiply`.

    A word holds two halves of each row. The digits of `pick`, from the lowest on, select bytes of
    the words `a` and `b`: digit n takes byte n, and 4 is a zero. Each result is a word of the
    column that a work-item holds.
    """

    target: Expression
    upper_a: Expression
    lower_a: Expression
    upper_b: Expression
    lower_b: Expression
    a: Expression
    b: Expression
    pick: Expression


@dataclass(frozen=True)
class Shift:
    """Declare a pointer `index` steps of `target.width` elements after another."""

    target: Pointer
    base: Pointer
    index: Expression


@dataclass(frozen=True)
class Prefetch:
    """Hint that an element, if it exists, will be read soon."""

    pointer: Pointer
    index: Expression


@dataclass(frozen=True)
class StoreRounded:
    """Round sixteen floats, in two vectors, to integers up to `high` and store them as bytes.

    With `zero`, ties go to even, and `zero` is added before clamping to 0..255. Without it, numbers
    count from the first byte, and ties go up.
    """

    pointer: Pointer
    index: Expression
    first: Expression
    second: Expression
    high: Expression
    zero: Expression | None = None


@dataclass(frozen=True)
class StoreRoundedBlock:
    """Round four vectors of eight floats as StoreRounded does with `zero`, and store them.

    The first halves of all four are stored as bytes starting at an element, the second halves
    `apart` elements further on.
    """

    pointer: Pointer
    index: Expression
    apart: Expression
    first: Expression
    second: Expression
    third: Expression
    fourth: Expression
    high: Expression
    zero: Expression


@dataclass(frozen=True)
class Barrier:
    """Synchronize a group's work-items and make their local memory writes visible."""


@dataclass(frozen=True)
class WarpgroupMultiply:
    """Start adding a product of matrices in local memory to each of the `targets`.

    Four warps, a warpgroup, multiply together: 64 rows by 16 halves, times 16 by 8 columns, and by
    the next 8 for the next target. The sums are valid after `AwaitProducts` and must not be used
    before.

    A matrix consists of pieces of eight halves, four words. `row` is the first piece of row 0,
    followed by those of the other rows; `row_pitch` further on is the second piece of row 0.
    Columns have the same layout. Warp n holds the rows starting at 16 * n, in the layout of
    `MatrixMultiply`.
    """

    rows: Pointer
    columns: Pointer
    row: Expression
    column: Expression
    row_pitch: Expression
    column_pitch: Expression
    targets: tuple[Expression, ...]


@dataclass(frozen=True)
class BeginProducts:
    """Make the warpgroup's writes to targets visible to the products that follow."""


@dataclass(frozen=True)
class EndProducts:
    """Commit the products started since the last such statement as a batch."""


@dataclass(frozen=True)
class AwaitProducts:
    """Wait for the warpgroup's products, except those of its `newest` batches.

    Their sums are valid then, and local memory is no longer read for them.
    """

    newest: Expression


@dataclass(frozen=True)
class CopyAhead:
    """Start copying two or four `words` to the element `index` of a local array.

    The copy is zeros if `inside` is false; `place` counts elements of that length. The work-item
    that started it may use the data after `AwaitCopies`, the others of its group after a barrier
    after that.
    """

    target: Pointer
    source: Pointer
    index: Expression
    place: Expression
    inside: Expression
    words: Expression

    @property
    def value(self) -> Expression:
        """The copied value, as a load would return it."""
        if self.words.number == 2:
            return load_words(self.source, self.place, self.inside)
        return load_double_words(self.source, self.place * 8, self.inside)


@dataclass(frozen=True)
class EndCopies:
    """Commit the copies this work-item started since the last such statement as a batch."""


@dataclass(frozen=True)
class AwaitCopies:
    """Wait for this work-item's copies, except those of its `newest` batches."""

    newest: Expression


@dataclass(frozen=True)
class ShowCopies:
    """Make this work-item's finished copies visible to products after the next barrier."""


@dataclass(frozen=True)
class AwaitInputs:
    """Mark the start of reads of earlier kernels' results; before it, only constants are read."""


@dataclass(frozen=True)
class AwaitHost:
    """Wait until the host has provided `needed` pieces of the inputs."""

    needed: Expression
    asks: Expression  # true for the work-item that polls the host for all others


@dataclass(frozen=True)
class LocalArray:
    """Memory shared by the work-items of one group."""

    pointer: Pointer
    kind: str
    width: int
    size: int


@dataclass(frozen=True)
class PrivateArray:
    """Memory of one work-item, for more data than registers hold."""

    pointer: Pointer
    size: int


@dataclass(frozen=True)
class Leave:
    """End this work-item."""


Statement = (
    Declare
    | Assign
    | DotAccumulate
    | MatrixMultiply
    | DiagonalMultiply
    | WarpgroupMultiply
    | BeginProducts
    | EndProducts
    | AwaitProducts
    | CopyAhead
    | EndCopies
    | AwaitCopies
    | ShowCopies
    | Shift
    | Store
    | Loop
    | Branch
    | Prefetch
    | StoreRounded
    | StoreRoundedBlock
    | Barrier
    | AwaitInputs
    | AwaitHost
    | LocalArray
    | Leave
)
