"""Statements of the kernel language: what a kernel's body is made of."""

from __future__ import annotations

from dataclasses import dataclass, field

from fourfold.kernel.expression import Expression, Pointer


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
class Call:
    """A function of the prelude that changes a variable."""

    function: str
    target: Expression
    operands: tuple[Expression, ...]


@dataclass(frozen=True)
class Shift:
    """A pointer to what lies `index` steps of `target.width` elements behind another."""

    target: Pointer
    base: Pointer
    index: Expression


@dataclass(frozen=True)
class CallAt:
    """A function of the prelude for what lies `index` elements behind a pointer."""

    function: str
    pointer: Pointer
    index: Expression
    operands: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class Barrier:
    """All work-items of a group meet here and see each other's local memory."""


@dataclass(frozen=True)
class Await:
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
    | Call
    | Shift
    | Store
    | Loop
    | Branch
    | CallAt
    | Barrier
    | Await
    | AwaitHost
    | LocalArray
    | Leave
)
