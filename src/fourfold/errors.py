"""Exception hierarchy. Every message says what happened, why, and how to fix it.

FourfoldError
├── ModelError        the file is damaged or inconsistent
├── UnsupportedError  the model is valid, but some nodes cannot run here (see `refusals`)
├── InputError        invalid arguments: names, shapes, dtypes, options; also a ValueError
│   └── MissingFileError  a file does not exist; also a FileNotFoundError
├── DeviceError       no platform, no such device, out of memory, device lost
└── BuildError        the device's compiler rejected a kernel (see `log` and `source`)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    import difflib

    from fourfold.support import display
    from fourfold.types import OpenInput
else:
    difflib, display = lazy_import("difflib"), lazy_import("fourfold.support.display")


# Raised when a record that is read back has unexpected JSON keys or types.
MALFORMED = (
    *(KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError),
    OverflowError,
)


class FourfoldError(Exception):
    """Base class: `what` happened, `why`, and how to `fix` it."""

    def __init__(self, what: str, why: str, fix: str) -> None:
        super().__init__(what, why, fix)
        self.what, self.why, self.fix = what, why, fix

    def __str__(self) -> str:
        text = f"{self.what}\n  why: {self.why}\n  fix: {self.fix}"
        return str(display.visible(text))


class ModelError(FourfoldError):
    """The model file is damaged or inconsistent."""


@dataclass(frozen=True)
class Refusal:
    """Reason why one node cannot run: its name, its operator, and a description."""

    node: str
    op: str
    reason: str

    def __str__(self) -> str:
        return f"{self.op} '{self.node}': {self.reason}"


class UnsupportedError(FourfoldError):
    """Some nodes of the model cannot run here; `refusals` lists them."""

    def __init__(self, what: str, refusals: Iterable[Refusal], fix: str) -> None:
        self.refusals = tuple(refusals)
        super().__init__(what, "".join(f"\n    - {refusal}" for refusal in self.refusals), fix)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.what, self.refusals, self.fix)


class InputError(FourfoldError, ValueError):
    """Invalid arguments: names, shapes, dtypes, options. It is a `ValueError`, too.

    `open_inputs` lists the inputs of a model whose sizes are open and were not set.
    """

    open_inputs: tuple[OpenInput, ...] = ()


class MissingFileError(InputError, FileNotFoundError):
    """A file that does not exist. It is a `FileNotFoundError`, too."""

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.what, self.why, self.fix)


def cannot_open(path: str, error: OSError) -> InputError:
    """Return the error for a file that cannot be opened."""
    kind = MissingFileError if isinstance(error, FileNotFoundError) else InputError
    fix = "check the path and that the file may be read"
    return kind(f"cannot open '{path}'", error.strerror or str(error), fix)


class DeviceError(FourfoldError):
    """No platform, no such device, out of memory, or device lost."""


class BuildError(FourfoldError):
    """The device's compiler rejected a kernel."""

    def __init__(self, what: str, log: str, source: str) -> None:
        lines = [line for line in log.splitlines() if "error" in line.lower()] or log.splitlines()
        why = "; ".join(line.strip() for line in lines[:3]) or "the compiler gave no message"
        fix = "report this with the output of 'fourfold explain MODEL --stage kernels'"
        super().__init__(what, why, fix)
        self.log, self.source = log, source

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.what, self.log, self.source)


def close_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names most similar to a name; empty if none is similar."""
    return difflib.get_close_matches(name, list(known), n=3)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the fix for an unknown name: the most similar names, or all of them."""
    names = [str(item) for item in known]
    close = close_names(name, names)
    if close:
        return f"did you mean {' or '.join(repr(item) for item in close)}?"
    return f"use one of: {', '.join(names)}" if names else "no names are available"
