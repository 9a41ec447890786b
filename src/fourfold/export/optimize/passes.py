"""Passes that keep a graph expressible in a file, and what each of them changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from fourfold.compiler.rewrite import PIPELINE, WRITABLE, Pass
from fourfold.compiler.rewrite.fold_scales import fold_scales
from fourfold.graph import Graph
from fourfold.types import silent_arithmetic

Listener = Callable[[str], None]


@dataclass(frozen=True)
class PassResult:
    """Nodes before and after one pass, and the change in the number of each op."""

    name: str
    before: int
    after: int
    changes: Mapping[str, int]

    @property
    def summary(self) -> str:
        """'27 mul and 27 add fewer, 1 reshape more', or '' without changes."""
        gone = [f"{-count} {op}" for op, count in self.changes.items() if count < 0]
        new = [f"{count} {op}" for op, count in self.changes.items() if count > 0]
        parts = ((gone, "fewer"), (new, "more"))
        return ", ".join(f"{' and '.join(names)} {word}" for names, word in parts if names)


def simplify(
    graph: Graph, fold_batch: bool, listener: Listener
) -> tuple[Graph, tuple[PassResult, ...]]:
    """Return the graph to write. Without `fold_batch`, scales of normalizations are not folded."""
    chosen = [run for run in WRITABLE if fold_batch or run is not fold_scales]
    return run_passes(graph, chosen, listener)


def fuse(graph: Graph, listener: Listener) -> tuple[PassResult, ...]:
    """Return what the passes before lowering change."""
    return run_passes(graph, PIPELINE, listener)[1]


@silent_arithmetic()
def run_passes(
    graph: Graph, passes: Iterable[Pass], listener: Listener
) -> tuple[Graph, tuple[PassResult, ...]]:
    results = []
    for run in passes:
        before, graph = graph, run(graph)
        results.append(_compared(run.__name__, before, graph))
        listener(run.__name__)
    return graph, tuple(results)


def _compared(name: str, before: Graph, after: Graph) -> PassResult:
    old, new = _ops(before), _ops(after)
    changes = {op: new[op] - old[op] for op in sorted({*old, *new}) if new[op] != old[op]}
    return PassResult(name, len(before.nodes), len(after.nodes), changes)


def _ops(graph: Graph) -> Counter[str]:
    return Counter(node.op for node in graph.nodes)
