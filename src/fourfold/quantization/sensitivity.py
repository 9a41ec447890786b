"""Find the layers that must stay float, by measuring one layer at a time."""

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

MAX_TRIAL_SAMPLES = 16


@dataclass
class LossTrials:
    """Measures simulated models against the float one, on the same few samples."""

    assigner: Assigner
    device: DeviceInfo | None
    samples: Samples
    score: Score | None = None
    expected: list[Arrays] = field(default_factory=list)

    @property
    def plain_device(self) -> DeviceInfo | None:
        """The device without dot products, so that all simulations use the same kernels.

        Only some roundings could use dot products.
        """
        return None if self.device is None else self.device.with_facts({"dot_products": ""})

    def loss(self, exact: Collection[str], storage: StorageAssignment) -> Loss:
        """Return the loss if only these layers stay float."""
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
    """Layers by loss, largest first, and how many of them must stay float."""

    order: tuple[str, ...]
    count: int


def find_sensitive(
    trials: LossTrials, kept: frozenset[str], most: float, steps: ProgressCounter
) -> Sensitivity:
    """Return the layers that must stay float for a loss of at most `most`, besides the kept ones.

    Each layer is measured with all others float. Then the worst layers are kept float until the
    loss is small enough, with a binary search for their number.
    """
    storage = trials.assigner.assign(kept)
    names = [layer.name for layer in trials.assigner.layers]
    loose = [name for name in names if name not in kept]
    steps.expect(len(loose))
    costs: dict[str, float] = {}
    # While one player of these kernels exists, others share its compiled kernels.
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
