"""Calibration: run the float graph on samples and collect statistics of its values.

Only statistics are stored, and only a few values are downloaded at a time, so that neither many
samples nor large models need much memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.export.quantize.assign import Observations
from fourfold.export.quantize.layers import LayerNodes, integer_nodes
from fourfold.export.quantize.method import Method
from fourfold.export.quantize.progress import ProgressCounter
from fourfold.export.quantize.ranges import RangeEstimator
from fourfold.export.quantize.rules import CHANNEL_AXIS
from fourfold.export.quantize.running import GraphRunner, with_outputs
from fourfold.export.quantize.samples import Samples
from fourfold.export.quantize.sharing import share_grids
from fourfold.graph import Graph

MAX_DOWNLOAD_BYTES = 256 << 20  # of the values that one run returns, unless one value is larger


@dataclass
class _Statistics:
    """Statistics of one value."""

    estimator: RangeEstimator | None
    sums: np.ndarray | None
    pixels: int = 0

    def add(self, array: np.ndarray) -> None:
        if not np.isfinite(array).all():
            array = np.nan_to_num(array, nan=0.0, posinf=0.0, neginf=0.0)
        if self.estimator is not None:
            self.estimator.add(array)
        if self.sums is not None:
            by_channel = array.reshape(-1, array.shape[-1])
            self.sums += by_channel.sum(0, dtype=np.float64)
            self.pixels += len(by_channel)


@dataclass(frozen=True)
class Observed:
    """Values whose ranges are observed, and values whose channel means are."""

    ranges: Collection[str] = ()
    means: Collection[str] = ()

    @property
    def values(self) -> list[str]:
        return sorted({*self.ranges, *self.means})


def values_to_observe(
    graph: Graph, layers: Sequence[LayerNodes], method: Method, correct_bias: bool
) -> Observed:
    """Return the values that a method must observe, whichever layers stay float in the end."""
    changed = {name for layer in layers for name in layer.nodes}
    sums = [n for n in graph.nodes if n.op in CHANNEL_AXIS and n.outputs[0] in changed]
    means = {str(node.inputs[0]) for node in sums} if correct_bias else set()
    if method.values is None:
        return Observed(means=means)
    nodes = integer_nodes(graph, layers, (), method)
    return Observed(share_grids(graph, nodes, method.values).observed, means)


@dataclass
class Calibration:
    """Runs all samples once for each group of values."""

    graph: Graph
    device: DeviceInfo | None
    make: Callable[[], RangeEstimator]
    wanted: Observed
    statistics: dict[str, _Statistics] = field(default_factory=dict)

    def run(self, samples: Samples, steps: ProgressCounter) -> Observations:
        for name in self.wanted.values:
            channels = self.graph.types[name].channels
            estimator = self.make() if name in self.wanted.ranges else None
            sums = np.zeros(channels) if name in self.wanted.means else None
            self.statistics[name] = _Statistics(estimator, sums)
        groups = list(_groups(self.graph, self.wanted.values))
        steps.expect(len(groups) * len(samples))
        for group in groups:
            self._look(group, samples, steps)
        return self._observations()

    def _look(self, group: Sequence[str], samples: Samples, steps: ProgressCounter) -> None:
        with closing(GraphRunner(with_outputs(self.graph, group), self.device)) as runner:
            for arrays in samples:
                values = {**arrays, **runner.run(arrays)}
                for name in group:
                    self.statistics[name].add(np.asarray(values[name]))
                steps.done("calibrating")

    def _observations(self) -> Observations:
        entries = self.statistics.items()
        ranges = {name: one.estimator.range() for name, one in entries if one.estimator is not None}
        means = {
            name: one.sums / max(one.pixels, 1) for name, one in entries if one.sums is not None
        }
        return Observations(ranges, means)


def _groups(graph: Graph, values: Sequence[str]) -> Iterator[list[str]]:
    """Split the values into groups that can be downloaded together."""
    group: list[str] = []
    size = 0
    for name in values:
        bytes_ = graph.types[name].bytes
        if group and size + bytes_ > MAX_DOWNLOAD_BYTES:
            yield group
            group, size = [], 0
        group.append(name)
        size += bytes_
    if group:
        yield group
