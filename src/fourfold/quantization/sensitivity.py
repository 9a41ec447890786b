"""Which layers stay float, found by measuring: one layer at a time, then as few as it takes."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass, field

from fourfold.device import DeviceInfo
from fourfold.quantization.assign import Assigner
from fourfold.quantization.measure import Loss, LossMeter, Score
from fourfold.quantization.progress import ProgressCounter
from fourfold.quantization.running import Arrays, GraphRunner
from fourfold.quantization.samples import Samples
from fourfold.quantization.simulate import simulate
from fourfold.quantization.storage import StorageAssignment

TRIED_ON = 16  # samples that layers are measured with


@dataclass
class LossTrials:
    """Measures simulated models against the float one, all on the same few samples."""

    assigner: Assigner
    device: DeviceInfo | None
    samples: Samples
    score: Score | None = None
    expected: list[Arrays] = field(default_factory=list)

    @property
    def plain_device(self) -> DeviceInfo | None:
        """The device without what only some roundings can use: all simulations are to be the same
        kernels, whichever of their roundings are fine.
        """
        return None if self.device is None else self.device.with_facts({"dot_products": ""})

    def loss(self, exact: Collection[str], storage: StorageAssignment) -> Loss:
        """The loss when these layers alone stay float."""
        nodes = {n for one in self.assigner.layers if one.name in exact for n in one.nodes}
        meter = LossMeter(self.score)
        with closing(GraphRunner(simulate(storage, nodes), self.plain_device)) as runner:
            for number, arrays in enumerate(self.samples):
                meter.add(number, self._float_outputs(number), runner.run(arrays))
        return meter.loss()

    def _float_outputs(self, number: int) -> Arrays:
        if not self.expected:
            with closing(GraphRunner(self.assigner.graph, self.device)) as runner:
                self.expected = [runner.run(arrays) for arrays in self.samples]
        return self.expected[number]


@dataclass(frozen=True)
class Sensitivity:
    """Layers by what they cost, the dearest first, and how many of these are to stay float."""

    order: tuple[str, ...]
    count: int


def find_sensitive(
    trials: LossTrials, kept: frozenset[str], most: float, steps: ProgressCounter
) -> Sensitivity:
    """The layers that must stay float for the loss to be at most `most`, beside those kept anyway.

    Each layer is measured with all others float. The worst ones are then kept until the loss of the
    rest is small enough: how many that takes is found by halving.
    """
    storage = trials.assigner.assign(kept)
    names = [layer.name for layer in trials.assigner.layers]
    loose = [name for name in names if name not in kept]
    steps.expect(len(loose))
    costs: dict[str, float] = {}
    # As long as one player of these kernels lives, no other has to build them.
    with closing(GraphRunner(simulate(storage), trials.plain_device)):
        for name in loose:
            costs[name] = trials.loss(set(names) - {name}, storage).value
            steps.done(f"measuring {name}")
        order = sorted(costs, key=lambda name: -costs[name])
        few, many = 0, len(order)
        while few + 1 < many:
            middle = (few + many) // 2
            enough = trials.loss(kept | set(order[:middle]), storage).value <= most
            few, many = (few, middle) if enough else (middle, many)
    return Sensitivity(tuple(order), many)
