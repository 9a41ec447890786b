"""Which nodes of an interpreter are claimed, in how many partitions, and why others are not."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fourfold.delegate.engine import Workshop
from fourfold.delegate.host import Host, Piece
from fourfold.delegate.kernel import Kernel
from fourfold.delegate.source import Source
from fourfold.errors import FourfoldError, Refusal, UnsupportedError

TAKEN = "another delegate has it"
FIXED = "it only reads constants: the interpreter computes it once"


@dataclass(frozen=True)
class Claims:
    """What a delegate has taken of a graph: nodes in partitions, and the reasons for the rest."""

    nodes: int
    partitions: tuple[tuple[int, ...], ...] = ()
    refusals: tuple[Refusal, ...] = ()

    @property
    def claimed(self) -> int:
        return sum(len(partition) for partition in self.partitions)

    @property
    def summary(self) -> str:
        count = len(self.partitions)
        parts = f"{count} partition{'' if count == 1 else 's'}"
        return f"{self.claimed} of {self.nodes} nodes in {parts}"

    def __str__(self) -> str:
        lines = [self.summary, *(f"  the interpreter's: {refusal}" for refusal in self.refusals)]
        return "\n".join(lines)


@dataclass
class Claim:
    """Finds what to claim of one graph. `kernels` are those of the pieces that were tried."""

    host: Host
    source: Source
    workshop: Workshop
    reasons: dict[int, str] = field(default_factory=dict)
    kernels: dict[Piece, Kernel] = field(default_factory=dict)

    def choose(self) -> list[Piece]:
        """The pieces to claim: each was made ready with the shapes of the file."""
        count = len(self.source.operators)
        present = {number for number in self.host.plan() if number < count}
        self.reasons = {**dict.fromkeys(set(range(count)) - present, TAKEN)}
        self.reasons |= self.source.refusals
        wanted = present - set(self.reasons)
        pieces = self._settle(wanted - self.source.fixed)
        whole = {number for piece in pieces for number in piece.nodes}
        with_fixed = self._with_fixed(whole, wanted)
        if len(pieces) == 1 and with_fixed != whole:
            other = self.host.preview(with_fixed)
            if len(other) == 1 and not self._trial(other[0]):
                pieces, whole = other, with_fixed
        self.reasons |= dict.fromkeys((wanted & self.source.fixed) - whole, FIXED)
        return pieces

    def _with_fixed(self, claimed: set[int], wanted: set[int]) -> set[int]:
        """The nodes with those on constants that nobody else reads: they vanish in a kernel."""
        found = set(claimed)
        for number in sorted(wanted & self.source.fixed, reverse=True):
            if found.issuperset(self.source.readers(number)):
                found.add(number)
        return found

    def _settle(self, wanted: set[int]) -> list[Piece]:
        """Tries the most valuable pieces; without what proves impossible, it starts anew."""
        most = self.workshop.options.max_delegated_partitions
        value = self.source.work(self.workshop.device, os.cpu_count() or 1)
        while wanted:
            pieces = self.host.preview(wanted)
            pieces.sort(key=lambda piece: sum(value[n] for n in piece.nodes), reverse=True)
            kept, left = pieces[:most], pieces[most:]
            failures = [self._trial(piece) for piece in kept]
            bad = {number: why for failure in failures for number, why in failure.items()}
            if not bad and left:
                why = f"max_delegated_partitions is {most}"
                bad = dict.fromkeys((n for piece in left for n in piece.nodes), why)
            if not bad:
                return kept
            self.reasons.update(bad)
            wanted = wanted - set(bad)
        return []

    def _trial(self, piece: Piece) -> Mapping[int, str]:
        """Why nodes of a piece cannot run, by making it ready; nothing if they can."""
        if piece in self.kernels:
            return {}
        kernel = Kernel(self.source.part(piece), self.workshop)
        try:
            kernel.open()
        except UnsupportedError as error:
            return self.source.blame(piece, error.refusals)
        except FourfoldError as error:
            return dict.fromkeys(piece.nodes, f"{error.what}: {error.why}")
        self.kernels[piece] = kernel
        return {}

    def result(self, pieces: Iterable[Piece]) -> Claims:
        partitions = tuple(piece.nodes for piece in pieces)
        return Claims(len(self.source.operators), partitions, tuple(self._refusals(partitions)))

    def _refusals(self, partitions: tuple[tuple[int, ...], ...]) -> Iterator[Refusal]:
        claimed = {number for partition in partitions for number in partition}
        for number in sorted(set(self.reasons) - claimed):
            name, op = self.source.title(number)
            yield Refusal(name, op, self.reasons[number])

    def close(self) -> None:
        """Free the kernels that nobody has taken."""
        while self.kernels:
            self.kernels.popitem()[1].close()
