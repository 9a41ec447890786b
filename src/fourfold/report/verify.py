"""Our values beside LiteRT's: every output and, layer by layer, every value on the way.

Each part on the GPU gets LiteRT's own values as its inputs, and gives all values that the file has.
What differs is run again in full precision and by the op's own definition in NumPy, so that lost
precision, a wrong kernel, a wrong definition and what earlier layers did are told apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from fourfold.compile import Wish
from fourfold.cpu.litert import LitertEngine, Wire, make_interpreter
from fourfold.cpu.reference import NumpyEngine
from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.placing import Situation, Wishes, decide, make_plan_of, read_situation
from fourfold.players import opencl
from fourfold.report.compare import Difference, difference
from fourfold.split import GPU, Part, Unit

TOLERANCE = {"fp32": 1e-4, "mixed": 1e-2, "fp16": 5e-2}
STEPS = 2.0  # a quantised value may be so many steps off
AGREES, HALF, KERNEL, MEANING = "agrees", "half precision", "kernel", "definition"
CARRIED = "from its inputs"
OVERFLOW = "overflow in half precision"


@dataclass(frozen=True)
class Layer:
    """One value: how far it is from LiteRT's, how far it may be, and what to make of it."""

    name: str
    op: str
    shape: tuple[int, ...]
    difference: Difference
    allowed: float
    verdict: str = AGREES

    @property
    def agrees(self) -> bool:
        return self.verdict == AGREES


@dataclass(frozen=True)
class Verification:
    """All values that were compared; `first` is the first that does not agree."""

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
    """The outputs of a session beside LiteRT's."""
    layers = []
    for name, mine, other in zip(names, ours, theirs, strict=True):
        found = difference(mine, other)
        quantised = other.dtype.kind in "iu" and other.dtype.itemsize == 1
        allowed = STEPS / max(int(np.ptp(other)), 1) if quantised else TOLERANCE[precision]
        bad = found.broken or found.largest > allowed
        verdict = "differs" if bad else AGREES
        layers.append(Layer(name, "output", mine.shape, found, allowed, verdict))
    return tuple(layers)


def run_litert(content: bytes, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of LiteRT for a whole file."""
    interpreter = make_interpreter(content, None)
    details = interpreter.get_input_details()
    for detail, array in zip(details, inputs, strict=True):
        interpreter.resize_tensor_input(detail["index"], array.shape)
    interpreter.allocate_tensors()
    for detail, array in zip(details, inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(item["index"]) for item in interpreter.get_output_details()]


def compare_layers(
    source: str | bytes, device: DeviceInfo, wish: Wish, inputs: Sequence[np.ndarray]
) -> tuple[Layer, ...]:
    """Every value of the parts on the GPU beside LiteRT's, in the order in which they are made."""
    situation = read_situation(source, "the model", device, wish, Wishes("gpu"))
    decision = decide(situation, {})
    theirs = _Theirs(situation, inputs)
    layers: list[Layer] = []
    for part in decision.choice.parts:
        if part.place == GPU:
            layers += _compare_part(situation, _opened(situation, part), theirs)
    return tuple(layers)


def _opened(situation: Situation, part: Part) -> Part:
    """The part with every value that the file has as an output."""
    origin = situation.model.origin
    assert origin is not None
    written = (value for unit in part.units for value in unit.writes)
    outputs = [value for value in written if origin.tensor(value) is not None]
    return replace(part, outputs=tuple(dict.fromkeys(outputs)))


class _Theirs:
    """LiteRT's own values of all tensors, as the graph sees them."""

    def __init__(self, situation: Situation, inputs: Sequence[np.ndarray]) -> None:
        origin = situation.model.origin
        assert origin is not None
        self._origin, self._types = origin, situation.graph.types
        wires = [self._wire(name) for name in situation.graph.inputs]
        self._engine = LitertEngine(origin.content, wires, (), keep_all=True)
        self._engine.run(inputs)

    def _wire(self, value: str) -> Wire:
        number = self._origin.tensor(value)
        assert number is not None
        return Wire(value, number, self._types[value], self._origin.grid(value))

    def value(self, name: str) -> np.ndarray:
        return self._engine.value(self._wire(name))

    def step(self, name: str) -> float:
        """How far apart the real numbers are that a quantised value can have; 0 for floats."""
        grid = self._origin.grid(name)
        return 0.0 if grid is None else max(grid[0].scale)


def _compare_part(situation: Situation, part: Part, theirs: _Theirs) -> Iterator[Layer]:
    graph = part.graph(situation.graph)
    arrays = {name: np.ascontiguousarray(theirs.value(name)) for name in graph.inputs}
    ours = {**arrays, **_play(situation, graph, list(arrays.values()))}
    trial = _Trial(situation, graph, arrays, ours, theirs)
    for unit in part.units:
        for name in unit.writes:
            if name in graph.outputs:
                yield trial.layer(unit, name)


@dataclass
class _Trial:
    """One part that was run: our values and theirs, and ours in full precision if that is asked."""

    situation: Situation
    graph: Graph
    inputs: Mapping[str, np.ndarray]
    ours: Mapping[str, np.ndarray]
    theirs: _Theirs
    exact: Mapping[str, np.ndarray] | None = None

    def layer(self, unit: Unit, name: str) -> Layer:
        expected, precision = self.theirs.value(name), self.situation.wish.precision
        found = difference(self.ours[name], expected)
        allowed = _allowed(expected, self.theirs.step(name), precision)
        layer = Layer(name, unit.title, expected.shape, found, allowed)
        wrong = found.broken or found.largest > allowed
        return replace(layer, verdict=self._verdict(unit, layer)) if wrong else layer

    def _verdict(self, unit: Unit, layer: Layer) -> str:
        """The first that holds: full precision agrees; the kernel or the definition does not."""
        name, expected = layer.name, self.theirs.value(layer.name)
        if self.situation.wish.precision != "fp32" and self._near(
            self._full()[name], expected, name
        ):
            lost = layer.difference.broken and layer.difference.beyond_half
            return OVERFLOW if lost else HALF
        if not self._defined(unit, name, self.ours, self.ours[name]):
            return KERNEL
        values = {value: self.theirs.value(value) for value in unit.reads if self._known(value)}
        return CARRIED if self._defined(unit, name, values, expected) else MEANING

    def _known(self, value: str) -> bool:
        origin = self.situation.model.origin
        return origin is not None and origin.tensor(value) is not None

    def _full(self) -> Mapping[str, np.ndarray]:
        if self.exact is None:
            wish = replace(self.situation.wish, precision="fp32")
            full = replace(self.situation, wish=wish)
            self.exact = _play(full, self.graph, list(self.inputs.values()))
        return self.exact

    def _defined(
        self, unit: Unit, name: str, values: Mapping[str, np.ndarray], result: np.ndarray
    ) -> bool:
        """Whether the definition in NumPy makes this result of these values; true if in doubt."""
        alone = Part(GPU, (unit,), unit.reads, (name,)).graph(self.situation.graph)
        if any(value not in values for value in alone.inputs):
            return True
        (found,) = NumpyEngine(alone).run([values[value] for value in alone.inputs])
        return self._near(result, found, name, self.situation.wish.precision)

    def _near(
        self, ours: np.ndarray, expected: np.ndarray, name: str, precision: str = "fp32"
    ) -> bool:
        found = difference(ours, expected)
        allowed = _allowed(expected, self.theirs.step(name), precision)
        return not found.broken and found.largest <= allowed


def _allowed(expected: np.ndarray, step: float, precision: str) -> float:
    reach = float(np.ptp(expected)) if expected.size and expected.dtype.kind != "b" else 1.0
    return max(TOLERANCE[precision], (STEPS + 0.01) * step / reach if reach else 0.0)


def _play(
    situation: Situation, graph: Graph, arrays: Sequence[np.ndarray]
) -> Mapping[str, np.ndarray]:
    player = opencl.Player(situation.device, make_plan_of(situation, graph, {}))
    try:
        return dict(zip(graph.outputs, player.run(arrays), strict=True))
    finally:
        player.close()
