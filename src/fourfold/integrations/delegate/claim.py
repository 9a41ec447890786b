"""Choose the nodes of an interpreter to claim, and record why others are not claimed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fourfold.errors import FourfoldError, Refusal, UnsupportedError
from fourfold.integrations.delegate.claimable_graph import ClaimableGraph
from fourfold.integrations.delegate.delegate_kernel import DelegateKernel
from fourfold.integrations.delegate.host import Host, NodeSubset
from fourfold.integrations.delegate.session_factory import SessionFactory

TAKEN = "another delegate has claimed it"
FIXED = "it only reads constants: the interpreter computes it once"


@dataclass(frozen=True)
class Claims:
    """The nodes that a delegate claimed, by partition, and the reasons for the others."""

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
        lines = [self.summary, *(f"  on the interpreter: {refusal}" for refusal in self.refusals)]
        return "\n".join(lines)


@dataclass
class ClaimSearch:
    """Finds the nodes to claim in one graph. `ready` has the subsets that opened successfully."""

    host: Host
    graph: ClaimableGraph
    factory: SessionFactory
    reasons: dict[int, str] = field(default_factory=dict)
    ready: dict[NodeSubset, DelegateKernel] = field(default_factory=dict)

    def choose(self) -> list[NodeSubset]:
        """Return the subsets to claim. Each has been opened with the shapes of the file."""
        count = len(self.graph.operators)
        present = {number for number in self.host.plan() if number < count}
        self.reasons = dict.fromkeys(set(range(count)) - present, TAKEN)
        self.reasons |= self.graph.refusals
        value = self.graph.work(self.factory.device, os.cpu_count() or 1)
        candidates = present - set(self.reasons)
        while candidates := self._without_shared_constants(candidates):
            subsets = self.host.preview(candidates)
            subsets.sort(key=lambda subset: sum(value[n] for n in subset.nodes), reverse=True)
            rejected = self._faults(subsets)
            if not rejected:
                return subsets
            self.reasons |= rejected
            candidates = candidates - set(rejected)
        return []

    def _without_shared_constants(self, candidates: set[int]) -> set[int]:
        """Drop nodes on constants whose results are also read outside the claimed nodes.

        Such nodes become part of their readers, and their own results are never computed.
        """
        kept = set(candidates)
        for number in sorted(candidates & self.graph.fixed, reverse=True):
            if not kept.issuperset(self.graph.readers(number)):
                kept.discard(number)
                self.reasons[number] = FIXED
        return kept

    def _faults(self, subsets: list[NodeSubset]) -> Mapping[int, str]:
        """Return the nodes that cannot be claimed: they failed, or there are too many subsets."""
        most = self.factory.options.max_delegated_partitions
        working = [subset for subset in subsets if not self.graph.fixed.issuperset(subset.nodes)]
        failures = [self._trial(subset) for subset in working[:most]]
        faults = {number: why for failure in failures for number, why in failure.items()}
        if not faults:
            why = f"max_delegated_partitions is {most}"
            left = {number for subset in working[most:] for number in subset.nodes}
            faults = dict.fromkeys(left - self.graph.fixed, why)
        return faults

    def _trial(self, subset: NodeSubset) -> Mapping[int, str]:
        """Open a subset and return why its nodes cannot run; empty if they can."""
        if subset in self.ready:
            return {}
        kernel = DelegateKernel(self.graph.write_subset(subset), self.factory)
        try:
            kernel.open()
        except UnsupportedError as error:
            return self.graph.blame(subset, error.refusals)
        except FourfoldError as error:
            return dict.fromkeys(subset.nodes, f"{error.what}: {error.why}")
        self.ready[subset] = kernel
        return {}

    def result(self, subsets: Iterable[NodeSubset]) -> Claims:
        partitions = tuple(subset.nodes for subset in subsets)
        return Claims(len(self.graph.operators), partitions, tuple(self._refusals(partitions)))

    def _refusals(self, partitions: tuple[tuple[int, ...], ...]) -> Iterator[Refusal]:
        claimed = {number for partition in partitions for number in partition}
        for number in sorted(set(self.reasons) - claimed):
            name, op = self.graph.title(number)
            yield Refusal(name, op, self.reasons[number])

    def close(self) -> None:
        """Free the kernels that were not claimed."""
        while self.ready:
            self.ready.popitem()[1].close()
