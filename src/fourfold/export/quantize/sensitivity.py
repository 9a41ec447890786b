"""Find the layers that must stay float, by simulating one quantized layer at a time.

Simulations use fake-quantization nodes. Layers that stay float get roundings so fine that they
change nothing. All simulations then use the same kernels with other numbers, and a device compiles
them once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.export.quantize.assign import Assigner
from fourfold.export.quantize.layers import is_fused
from fourfold.export.quantize.measure import Loss, LossMeter, Score
from fourfold.export.quantize.rules import AVERAGES, MOVES
from fourfold.export.quantize.running import Arrays, GraphRunner, ProgressCounter
from fourfold.export.quantize.samples import Samples
from fourfold.export.quantize.storage import StorageAssignment, fresh_name
from fourfold.formats.writable import StoredAs
from fourfold.graph import Graph, Node
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.types import DType, TensorType

_FINE_STEP = 2.0**-20  # of the finest rounding, relative to the range of a grid
_MAX_FINE_STEPS = 2**24 - 1  # on either side of zero
_LIMITS = {DType.I8: (-128, 127), DType.I16: (-32768, 32767)}


def simulate(storage: StorageAssignment, exact: Collection[str] = ()) -> Graph:
    """Return the graph with rounded constants and values, except in the `exact` nodes."""
    work = _Work(storage, frozenset(exact))
    for node in storage.graph.nodes:
        work.add(node)
    return work.graph()


@dataclass
class _Work:
    """The nodes so far. `copies` are rounded copies of float values."""

    storage: StorageAssignment
    exact: frozenset[str]
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    copies: dict[tuple[str, StoredAs], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.types = dict(self.storage.graph.types)
        self.taken = set(self.types)

    def add(self, node: Node) -> None:
        inputs = [self._input(node, at) for at in range(self.storage.input_count(node))]
        output = node.outputs[0]
        if not self.storage.on_integers(node) or self._keeps_grid(node):
            self.nodes.append(replace(node, inputs=tuple(inputs)))
            return
        exact = self._new_value(output, "exact")
        self.nodes.append(replace(node, inputs=tuple(inputs), outputs=(exact,)))
        rounding = self._rounding(self.storage.grids[output], output in self.exact)
        self.nodes.append(Node("fake_quantize", (exact,), (output,), rounding))

    def _keeps_grid(self, node: Node) -> bool:
        moves = node.op in MOVES and node.op not in AVERAGES
        return moves or (node.op == "relu" and is_fused(self.storage.graph, node))

    def _input(self, node: Node, at: int) -> str | None:
        place, storage = (node.outputs[0], at), self.storage
        name = node.inputs[at] if at < len(node.inputs) else None
        operand = storage.operands.get(place)
        if operand is not None:
            array = self._constant(node, at) if node.outputs[0] in self.exact else operand.rounded
            fresh = self._new_name(f"{node.outputs[0]}/operand{at}")
            self.constants[fresh], self.types[fresh] = array, TensorType.of(array)
            return fresh
        if name is None or not storage.on_integers(node) or name not in storage.grids:
            return name
        stored = storage.regrids.get(place, storage.grids[name])
        if storage.is_made(name) and place not in storage.regrids:
            return name
        return self._copy(name, stored)

    def _constant(self, node: Node, at: int) -> np.ndarray:
        name = node.inputs[at] if at < len(node.inputs) else None
        operand = self.storage.operands[node.outputs[0], at]
        zeros = np.zeros_like(operand.array)
        return zeros if name is None else np.asarray(self.storage.graph.constants[name])

    def _copy(self, name: str, stored: StoredAs) -> str:
        if (name, stored) not in self.copies:
            copy = self._new_value(name, "rounded")
            readers = [n for n in self.storage.graph.readers[name] if self.storage.on_integers(n)]
            exact = all(node.outputs[0] in self.exact for node in readers)
            rounding = self._rounding(stored, exact)
            self.nodes.append(Node("fake_quantize", (name,), (copy,), rounding))
            self.copies[name, stored] = copy
        return self.copies[name, stored]

    def _rounding(self, stored: StoredAs, exact: bool) -> FakeQuantize:
        assert stored.quantization is not None
        scale, point = stored.quantization.scale[0], stored.quantization.zero_point[0]
        low, high = (limit - point for limit in _LIMITS[stored.dtype])
        if exact:  # a grid that starts at zero must keep doing so: it uses another kernel
            step = scale * (high - low) * _FINE_STEP
            return FakeQuantize(step, -_MAX_FINE_STEPS if low else 0, _MAX_FINE_STEPS)
        return FakeQuantize(scale, low, high)

    def _new_name(self, name: str) -> str:
        return fresh_name(name, self.taken)

    def _new_value(self, name: str, what: str) -> str:
        fresh = self._new_name(f"{name}/{what}")
        self.types[fresh] = self.types[name]
        return fresh

    def graph(self) -> Graph:
        graph = self.storage.graph
        constants: Mapping[str, np.ndarray] = {**graph.constants, **self.constants}
        return graph.with_nodes(tuple(self.nodes), types=self.types, constants=constants)


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
