"""One fuzzing case: a file, damaged in a way that its number determines, and its outcome."""

from __future__ import annotations

import random
import resource
import time
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

from fuzz.mutate import mutate
from fuzz.originals import Originals
from fuzz.trial import Course, compile_damaged, open_on_cpu, play_damaged

from fourfold.errors import FourfoldError

MIB = 1 << 20
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
OURS = ("src/fourfold/", "tests/fuzz/")


@dataclass(frozen=True)
class Case:
    """The nth damaged version of a file; another seed gives another version."""

    title: str
    number: int
    seed: int = 0

    def draw(self, originals: Originals) -> tuple[bytes, Course]:
        """Return the damaged file, and its compile options."""
        rng = random.Random(f"{self.seed} {self.title} {self.number}")
        original = originals.get(self.title)
        return mutate(original.content, rng, original.fields), Course.draw(rng)

    @staticmethod
    def parse(text: str, seed: int) -> Case:
        title, _, number = text.rpartition(":")
        return Case(title, int(number), seed)

    def __str__(self) -> str:
        return f"{self.title}:{self.number}"


@dataclass(frozen=True)
class Finding:
    """A failure: an exception of another kind, a hang, a crash, or excessive memory."""

    kind: str
    what: str
    where: str = ""
    trace: str = ""

    @staticmethod
    def of(error: BaseException) -> Finding:
        frames = traceback.extract_tb(error.__traceback__)
        files = [frame.filename.replace("\\", "/") for frame in frames]
        own = [n for n, name in enumerate(files) if any(part in name for part in OURS)]
        last = own[-1] if own else -1
        name = next((p + files[last].rpartition(p)[2] for p in OURS if p in files[last]), "")
        what = "".join(traceback.format_exception_only(error)).strip()
        if error.__cause__ is not None:
            what += f", since {error.__cause__}"
        trace = "".join(traceback.format_exception(error))
        return Finding("exception", what, f"{name}:{frames[last].lineno}", trace)

    @property
    def group(self) -> tuple[str, str, str]:
        """Return a key that is equal for findings with probably the same cause."""
        return self.kind, self.what.partition(":")[0], self.where


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case: 'refused', 'planned', 'opened', 'played' or 'found'."""

    result: str
    seconds: float
    peak: int  # bytes of memory
    finding: Finding | None = None


def try_case(
    case: Case, originals: Originals, play: bool, memory: int, cpu: bool = False
) -> Outcome:
    """Compile a damaged file, or open it in its CPU engine, within a memory limit in bytes. With
    `play`, small ones also run.
    """
    data, course = case.draw(originals)
    forget_peak()
    started = time.perf_counter()
    result, finding = _attempt(data, course, play, cpu)
    seconds, peak = time.perf_counter() - started, peak_memory()
    if finding is None and peak > memory:
        finding = Finding("memory", f"{peak // MIB} MiB of memory")
    return Outcome("found" if finding else result, seconds, peak, finding)


def _attempt(data: bytes, course: Course, play: bool, cpu: bool) -> tuple[str, Finding | None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            if cpu:
                return "played" if open_on_cpu(data, play) else "opened", None
            if play:
                return "played" if play_damaged(data, course) else "planned", None
            compile_damaged(data, course)
    except FourfoldError as error:
        return "refused", _flaw(error)
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        return "found", Finding.of(error)
    return "planned", None


def _flaw(error: FourfoldError) -> Finding | None:
    """Return what is wrong with an error of the right kind: an empty part, or a memory error as
    cause.
    """
    if not (error.what and error.why and error.fix):
        return Finding("exception", f"a part of a message is empty: {error!r}")
    return Finding.of(error.__cause__) if isinstance(error.__cause__, MemoryError) else None


def forget_peak() -> None:
    """Reset the recorded peak memory, where the system supports it."""
    try:
        CLEAR.write_text("5")
    except OSError:
        return


def peak_memory() -> int:
    """Return the peak memory of this process in bytes."""
    try:
        lines = STATUS.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) << 10
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
