"""Our values beside a CPU engine's: every output and, layer by layer, every value on the way.

Each part on the GPU gets the engine's own values as its inputs and runs as in a session, fused and
in its precision; every value of the file that it still has is copied out on the way. What differs
is run again in full precision and by the op's own definition in NumPy, so that lost precision, a
wrong kernel, a wrong definition and what earlier layers did are told apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from fourfold import players
from fourfold.compile.pipeline import LoweringInput, kernel_options
from fourfold.compile.placement import PlacementProblem, decide, read_problem
from fourfold.cpu.protocol import CpuEngine
from fourfold.cpu.reference import NumpyPart
from fourfold.cpu.registry import usable_engine
from fourfold.device import DeviceInfo
from fourfold.formats import Model
from fourfold.graph import Graph, Node
from fourfold.options import CompileOptions, PlacementOptions
from fourfold.report.compare import Deviation, deviation

TOLERANCE = {"fp32": 1e-4, "mixed": 1e-2, "fp16": 5e-2}
STEPS = 2.0  # a quantised value may be so many steps off
ROUNDING_DRAWS = 4  # ways of rounding that are tried
ROUNDING_MARGIN = 4.0  # how much further than in those tried an engine's rounding may lead
AGREES, HALF, KERNEL, MEANING = "agrees", "half precision", "kernel", "definition"
CARRIED, ROUNDED = "from its inputs", "rounded by"  # the engine
FLAT = "agrees, but hardly varies"  # so few steps apart that agreement says little
OVERFLOW = "overflow in half precision"


@dataclass(frozen=True)
class Layer:
    """One value: how far it is from the engine's, how far it may be, and what to make of it."""

    name: str
    op: str
    shape: tuple[int, ...]
    difference: Deviation
    allowed: float
    verdict: str = AGREES

    @property
    def agrees(self) -> bool:
        return self.verdict in (AGREES, FLAT)


@dataclass(frozen=True)
class Verification:
    """All values that were compared; `first` is the first that does not agree."""

    engine: str  # that they were compared with, as people know it
    precision: str
    device: str
    outputs: tuple[Layer, ...]
    layers: tuple[Layer, ...] = ()

    @property
    def first(self) -> Layer | None:
        return next((layer for layer in (*self.layers, *self.outputs) if not layer.agrees), None)

    @property
    def agrees(self) -> bool:
        return all(layer.agrees for layer in self.outputs)

    def to_json(self) -> dict[str, Any]:
        first = None if self.first is None else self.first.name
        return {"agrees": self.agrees, "first_divergence": first, **asdict(self)}


def compare_outputs(
    ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray], names: Sequence[str], precision: str
) -> tuple[Layer, ...]:
    """The outputs of a session beside an engine's."""
    layers = []
    for name, mine, other in zip(names, ours, theirs, strict=True):
        found = deviation(mine, other)
        quantised = other.dtype.kind in "iu" and other.dtype.itemsize == 1
        steps = int(np.ptp(other.astype(np.int64))) if quantised and other.size else 0
        allowed = STEPS / max(steps, 1) if quantised else TOLERANCE[precision]
        bad = found.broken or found.largest > allowed
        flat = quantised and steps <= 2 * STEPS
        verdict = "differs" if bad else FLAT if flat else AGREES
        layers.append(Layer(name, "output", mine.shape, found, allowed, verdict))
    return tuple(layers)


def compare_layers(
    source: str | bytes, device: DeviceInfo, options: CompileOptions, inputs: Sequence[np.ndarray]
) -> tuple[Layer, ...]:
    """Every value of the parts on the GPU beside those of the format's CPU engine, or of NumPy, in
    the order in which they are made.
    """
    problem = read_problem(source, "the model", device, options, PlacementOptions("gpu"))
    engine = _EngineValues(usable_engine(problem.model.cpu_engine), problem.model, inputs)
    layers: list[Layer] = []
    for part in decide(problem, {}).planned.values():
        layers += _PartTrial.of(problem, part.lowering, engine).layers()
    return tuple(layers)


class _EngineValues:
    """The engine's own values, as the graph sees them."""

    def __init__(self, engine: CpuEngine, model: Model, inputs: Sequence[np.ndarray]) -> None:
        self.title, self._source = engine.title, model.source_graph
        values = engine.compute_values(model, inputs)
        self.has, self.value = values.has, values.value

    def step(self, name: str) -> float:
        """How far apart the real numbers are that a quantised value can have; 0 for floats."""
        grid = None if self._source is None else self._source.grid(name)
        return 0.0 if grid is None else max(grid[0].scale)


@dataclass
class _PartTrial:
    """One part that was run: our values, LiteRT's, and ours in full precision if that is asked."""

    problem: PlacementProblem
    lowering: LoweringInput
    inputs: Mapping[str, np.ndarray]
    ours: Mapping[str, np.ndarray]
    expected_values: _EngineValues
    exact: Mapping[str, np.ndarray] | None = None

    @staticmethod
    def of(
        problem: PlacementProblem, lowering: LoweringInput, expected_values: _EngineValues
    ) -> _PartTrial:
        names = lowering.graph.arguments
        arrays = {name: np.asarray(expected_values.value(name), order="C") for name in names}
        ours = {**arrays, **_play(lowering, arrays)}
        return _PartTrial(problem, lowering, arrays, ours, expected_values)

    @property
    def graph(self) -> Graph:
        return self.lowering.graph

    @property
    def precision(self) -> str:
        return self.problem.compile_options.precision

    def layers(self) -> Iterator[Layer]:
        for node in self.graph.nodes:
            for name in node.outputs:
                if self.expected_values.has(name):
                    yield self._layer(node, name)

    def _layer(self, node: Node, name: str) -> Layer:
        expected = self.expected_values.value(name)
        found = deviation(self.ours[name], expected)
        allowed = _allowed(expected, self.expected_values.step(name), self.precision)
        layer = Layer(name, self._title(node), expected.shape, found, allowed)
        wrong = found.broken or found.largest > allowed
        return replace(layer, verdict=self._verdict(node, layer)) if wrong else layer

    def _title(self, node: Node) -> str:
        origin = self.problem.model.source_graph
        return node.op if origin is None else origin.titles.get(node.name, node.op)

    def _verdict(self, node: Node, layer: Layer) -> str:
        """The first that holds: full precision agrees; the kernel or the definition does not."""
        name, expected = layer.name, self.expected_values.value(layer.name)
        mixed = self.precision != "fp32"
        if mixed and self._near(self._full()[name], expected, name):
            lost = layer.difference.beyond_half or layer.difference.broken
            return OVERFLOW if lost else HALF
        if not self._defined(node, name, self.ours, self.ours[name]):
            return KERNEL
        values = {
            v: self.expected_values.value(v) for v in node.reads if self.expected_values.has(v)
        }
        if self._defined(node, name, values, expected):
            return CARRIED
        rounded = self._rounds(node) and self._explains(node, name, values)
        return f"{ROUNDED} {self.expected_values.title}" if rounded else MEANING

    def _rounds(self, node: Node) -> bool:
        """Whether the engine rounds what this node reads, because its weights are integers."""
        origin = self.problem.model.source_graph
        return origin is not None and node.name in origin.titles and origin.rounds(node.name)

    def _explains(self, node: Node, name: str, values: Mapping[str, np.ndarray]) -> bool:
        """Whether such a rounding moves the result as far as the engine's is from the definition's.

        How far it can move it is measured: every element is put off by half a step, up or down.
        """
        exact = self._define(node, name, values)
        reach = 0.0
        for draw in range(ROUNDING_DRAWS):
            generator = np.random.default_rng(draw)
            rounded = {value: _put_off(array, generator) for value, array in values.items()}
            moved = np.abs(self._define(node, name, rounded) - exact)
            reach = max(reach, float(moved.max(initial=0.0)))
        apart = np.abs(self.expected_values.value(name) - exact)
        return bool(np.all(apart <= ROUNDING_MARGIN * reach))

    def _full(self) -> Mapping[str, np.ndarray]:
        if self.exact is None:
            options = replace(self.problem.compile_options, precision="fp32")
            full = self.lowering._replace(options=kernel_options(options))
            self.exact = _play(full, self.inputs)
        return self.exact

    def _defined(
        self, node: Node, name: str, values: Mapping[str, np.ndarray], result: np.ndarray
    ) -> bool:
        """Whether the definition in NumPy makes this result of these values; true if in doubt."""
        reads = tuple(value for value in node.reads if value not in self.graph.constants)
        if any(value not in values for value in reads):
            return True
        return self._near(result, self._define(node, name, values), name)

    def _define(self, node: Node, name: str, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """What the definition in NumPy makes of these values."""
        reads = tuple(value for value in node.reads if value not in self.graph.constants)
        alone = self.graph.with_nodes((node,), inputs=reads, outputs=(name,), states={})
        (found,) = NumpyPart(alone).run([values[value] for value in reads])
        return found

    def _near(self, ours: np.ndarray, expected: np.ndarray, name: str) -> bool:
        found = deviation(ours, expected)
        allowed = _allowed(expected, self.expected_values.step(name), self.precision)
        return not found.broken and found.largest <= allowed


def _put_off(array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Each number half a step off, the steps being those of signed bytes; integers as they are."""
    if array.dtype.kind != "f":
        return array
    half = float(np.abs(array).max(initial=0.0)) / 127 / 2
    moved = array + half * generator.choice((-1.0, 1.0), array.shape)
    return np.asarray(moved, array.dtype)


def _allowed(expected: np.ndarray, step: float, precision: str) -> float:
    reach = float(np.ptp(expected)) if expected.size and expected.dtype.kind != "b" else 1.0
    return max(TOLERANCE[precision], (STEPS + 0.01) * step / reach if reach else 0.0)


def _play(lowering: LoweringInput, arrays: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """All values of a graph, those on the way through copies, so that they stay as they are."""
    graph = lowering.graph
    values = [name for node in graph.nodes for name in node.outputs]
    copies = {name: f"{name}/seen" for name in values if name not in graph.outputs}
    nodes = tuple(Node("identity", (name,), (copy,)) for name, copy in copies.items())
    types = {**graph.types, **{copy: graph.types[name] for name, copy in copies.items()}}
    outputs = (*graph.outputs, *copies.values())
    seen = replace(graph, nodes=(*graph.nodes, *nodes), types=types, outputs=outputs)
    player = players.make_player(lowering.device, lowering._replace(graph=seen).plan())
    try:
        results = player.run([arrays[name] for name in graph.arguments])
    finally:
        player.close()
    return dict(zip((*graph.results, *copies), results, strict=True))
