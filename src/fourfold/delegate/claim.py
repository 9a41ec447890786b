"""Which nodes of an interpreter are claimed, in how many partitions, and why others are not."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fourfold.delegate.engine import Workshop
from fourfold.delegate.host import Host, Piece
from fourfold.delegate.partition import Partition
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
    """Finds what to claim of one graph. `ready` has the pieces that were tried."""

    host: Host
    source: Source
    workshop: Workshop
    reasons: dict[int, str] = field(default_factory=dict)
    ready: dict[Piece, Partition] = field(default_factory=dict)

    def choose(self) -> list[Piece]:
        """The pieces to claim: each was made ready with the shapes of the file."""
        count = len(self.source.operators)
        present = {number for number in self.host.plan() if number < count}
        self.reasons = dict.fromkeys(set(range(count)) - present, TAKEN)
        self.reasons |= self.source.refusals
        value = self.source.work(self.workshop.device, os.cpu_count() or 1)
        wanted = present - set(self.reasons)
        while wanted := self._without_lost(wanted):
            pieces = self.host.preview(wanted)
            pieces.sort(key=lambda piece: sum(value[n] for n in piece.nodes), reverse=True)
            bad = self._faults(pieces)
            if not bad:
                return pieces
            self.reasons |= bad
            wanted = wanted - set(bad)
        return []

    def _without_lost(self, wanted: set[int]) -> set[int]:
        """The nodes without those on constants that somebody else reads, too.

        What is left of these is part of who reads it, and its own results are never computed.
        """
        kept = set(wanted)
        for number in sorted(wanted & self.source.fixed, reverse=True):
            if not kept.issuperset(self.source.readers(number)):
                kept.discard(number)
                self.reasons[number] = FIXED
        return kept

    def _faults(self, pieces: list[Piece]) -> Mapping[int, str]:
        """The nodes that cannot be claimed and why: they failed, or there are too many pieces."""
        most = self.workshop.options.max_delegated_partitions
        working = [piece for piece in pieces if not self.source.fixed.issuperset(piece.nodes)]
        failures = [self._trial(piece) for piece in working[:most]]
        bad = {number: why for failure in failures for number, why in failure.items()}
        if not bad:
            why = f"max_delegated_partitions is {most}"
            left = {number for piece in working[most:] for number in piece.nodes}
            bad = dict.fromkeys(left - self.source.fixed, why)
        return bad

    def _trial(self, piece: Piece) -> Mapping[int, str]:
        """Why nodes of a piece cannot run, by making it ready; nothing if they can."""
        if piece in self.ready:
            return {}
        partition = Partition(self.source.part(piece), self.workshop)
        try:
            partition.open()
        except UnsupportedError as error:
            return self.source.blame(piece, error.refusals)
        except FourfoldError as error:
            return dict.fromkeys(piece.nodes, f"{error.what}: {error.why}")
        self.ready[piece] = partition
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
        """Free the partitions that nobody has taken."""
        while self.ready:
            self.ready.popitem()[1].close()
