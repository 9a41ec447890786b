"""The tree of errors. Every message says what happened, why, and how to fix it.

FourfoldError
├── ModelError        the file is damaged, or says something impossible
├── UnsupportedError  the model is fine, but part of it cannot run here yet (`refusals` has each
reason)
├── InputError        what the caller passed: names, shapes, dtypes, options
├── DeviceError       no platform, no such device, out of memory, device lost
└── BuildError        the device's compiler refused a kernel (`log` and `source` have the details)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fourfold.lazy import lazy_import

if TYPE_CHECKING:
    import difflib
else:
    difflib = lazy_import("difflib")


# What reading a record raises that is not as it was written: a JSON object of other keys or types.
MALFORMED = (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError)


class FourfoldError(Exception):
    """The root: `what` happened, `why`, and how to `fix` it."""

    def __init__(self, what: str, why: str, fix: str) -> None:
        super().__init__(what, why, fix)
        self.what, self.why, self.fix = what, why, fix

    def __str__(self) -> str:
        return f"{self.what}\n  why: {self.why}\n  fix: {self.fix}"


class ModelError(FourfoldError):
    """The model file is damaged, or says something impossible."""


@dataclass(frozen=True)
class Refusal:
    """Why one node cannot run: the node's own name, its op, and the reason in words."""

    node: str
    op: str
    reason: str

    def __str__(self) -> str:
        return f"{self.op} '{self.node}': {self.reason}"


class UnsupportedError(FourfoldError):
    """Part of the model cannot run here yet; `refusals` lists every such node."""

    def __init__(self, what: str, refusals: Iterable[Refusal], fix: str) -> None:
        self.refusals = tuple(refusals)
        super().__init__(what, "".join(f"\n    - {refusal}" for refusal in self.refusals), fix)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.what, self.refusals, self.fix)


class InputError(FourfoldError):
    """What the caller passed does not fit: names, shapes, dtypes, options."""


class DeviceError(FourfoldError):
    """No platform, no such device, out of memory, device lost."""


class BuildError(FourfoldError):
    """The device's compiler refused a kernel."""

    def __init__(self, what: str, log: str, source: str) -> None:
        lines = [line for line in log.splitlines() if "error" in line.lower()] or log.splitlines()
        why = "; ".join(line.strip() for line in lines[:3]) or "the compiler gave no message"
        fix = "report this with the output of 'fourfold explain MODEL --stage kernels'"
        super().__init__(what, why, fix)
        self.log, self.source = log, source

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.what, self.log, self.source)


def close_names(name: str, known: Iterable[str]) -> list[str]:
    """Those that a name may have been meant for; none where none is like it."""
    return difflib.get_close_matches(name, list(known), n=3)


def nearest(name: str, known: Iterable[str]) -> str:
    """A fix for a name that is not known: the closest ones, or all of them."""
    names = [str(item) for item in known]
    close = close_names(name, names)
    if close:
        return f"did you mean {' or '.join(repr(item) for item in close)}?"
    return f"use one of: {', '.join(names)}" if names else "there is none to choose from"
