"""Statements of the kernel language: what a kernel's body is made of."""

from __future__ import annotations

from dataclasses import dataclass, field

from fourfold.kernel.expression import Expression, Pointer
from fourfold.kernel.intrinsics import load_double_words, load_words

WARPGROUP_COLUMNS = (8, 16)  # blocks of eight columns that a warpgroup multiplies by at once


@dataclass(frozen=True)
class Declare:
    """A new variable with its first value."""

    target: Expression
    value: Expression
    constant: bool


@dataclass(frozen=True)
class Assign:
    """A new value for a variable; `op` is '' or '+'."""

    target: Expression
    value: Expression
    op: str = ""


@dataclass(frozen=True)
class Store:
    """Write `value` at `index * value.width` of the memory behind a pointer."""

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
    """target[n] += the four unsigned bytes of bytes[n] times the four signed ones of weights[n];
    ints of width 4 or 8.
    """

    target: Expression
    bytes: Expression
    weights: Expression


@dataclass(frozen=True)
class MatrixMultiply:
    """target += a product of matrices that a warp of 32 work-items holds together: 16 rows by 16
    halves, times 16 by 8, into floats.

    Work-item n has the halves 4 * (n % 4) to + 3 of the rows n / 4 (`upper`) and n / 4 + 8
    (`lower`), and those of column n / 4 of the other matrix (`factor`); of the result it has the
    columns 2 * (n % 4) and the next of its upper row, then of its lower one.
    """

    target: Expression
    upper: Expression
    lower: Expression
    factor: Expression


@dataclass(frozen=True)
class DiagonalMultiply:
    """target += the rows of two matrices times a diagonal each, as `MatrixMultiply` lays them out:
    two halves of each row in a word.

    The bytes of the words `a` and `b` go where the digits of `pick` say, from the lowest on: digit
    n takes byte n, and 4 is a zero. Each becomes a word of the column that a work-item holds.
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
    """A pointer to what lies `index` steps of `target.width` elements behind another."""

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
    """Sixteen floats, eight in each of two vectors, rounded to whole numbers up to `high` and
    stored as bytes from an element on.

    With `zero`, ties go to the even one, and `zero` is added before what is below 0 or above 255
    becomes that; without it numbers count from the first byte, and ties go up.
    """

    pointer: Pointer
    index: Expression
    first: Expression
    second: Expression
    high: Expression
    zero: Expression | None = None


@dataclass(frozen=True)
class StoreRoundedBlock:
    """Four vectors of eight floats, rounded as by StoreRounded with `zero`. The first halves of all
    four are stored as bytes from an element on, the second halves `apart` elements further on.
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
    """All work-items of a group wait for each other and see each other's local memory."""


@dataclass(frozen=True)
class WarpgroupMultiply:
    """Begin to add to each of the `targets` a product of matrices in local memory that four warps,
    a warpgroup, make together: 64 rows by 16 halves, times 16 by 8 columns, and by the next 8 for
    the next target. The sums are there after `AwaitProducts`; until then nobody uses them.

    A matrix lies there in pieces of eight halves, four words: `row` is the piece with the first of
    row 0, behind which are those of the other rows, and `row_pitch` further on the rest of row 0;
    the same of columns. Warp n of the four has the rows from 16 * n on, as `MatrixMultiply` has
    rows and columns of the result.
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
    """What the warpgroup has put into targets is there for the products that come."""


@dataclass(frozen=True)
class EndProducts:
    """What the warpgroup has begun to multiply since the last such statement is a batch."""


@dataclass(frozen=True)
class AwaitProducts:
    """The warpgroup's sums are there, and nothing of local memory is read for them any more, but
    for those of its `newest` batches, so many.
    """

    newest: Expression


@dataclass(frozen=True)
class CopyAhead:
    """Begin to copy so many `words`, two or four, from behind a pointer to the element `index` of a
    local array, zeros where `inside` does not hold; `place` counts elements of that length. Whoever
    began it has them after `AwaitCopies`, all others of its group after a barrier behind that.
    """

    target: Pointer
    source: Pointer
    index: Expression
    place: Expression
    inside: Expression
    words: Expression

    @property
    def value(self) -> Expression:
        """What is copied, as it would be read."""
        if self.words.number == 2:
            return load_words(self.source, self.place, self.inside)
        return load_double_words(self.source, self.place * 8, self.inside)


@dataclass(frozen=True)
class EndCopies:
    """What this work-item has begun to copy since the last such statement is a batch."""


@dataclass(frozen=True)
class AwaitCopies:
    """This work-item's copies are there, but for those of its `newest` batches, so many."""

    newest: Expression


@dataclass(frozen=True)
class ShowCopies:
    """This work-item's copies that are there are seen by products behind the next barrier."""


@dataclass(frozen=True)
class AwaitInputs:
    """From here on the kernel reads what kernels before it made; until here only constants."""


@dataclass(frozen=True)
class AwaitHost:
    """From here on the kernel reads pieces that the host brings meanwhile; so many are needed."""

    needed: Expression
    asks: Expression  # whether this work-item asks the host for all others


@dataclass(frozen=True)
class LocalArray:
    """Memory that the work-items of one group share."""

    pointer: Pointer
    kind: str
    width: int
    size: int


@dataclass(frozen=True)
class PrivateArray:
    """Memory of one work-item, for more than registers can hold."""

    pointer: Pointer
    size: int


@dataclass(frozen=True)
class Leave:
    """This work-item has nothing (more) to do."""


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
